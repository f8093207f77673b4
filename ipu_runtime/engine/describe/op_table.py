"""Which kind of plain operation each TensorFlow operation is."""

from __future__ import annotations

from collections.abc import Mapping

from ipu_runtime.plan.costs.op_costs import ADD, OTHER, SELECT
from ipu_runtime.plan.costs.operation_costs import VECTOR_CYCLES
from ipu_runtime.plan.model.operations import OpKind


def _named(text: str) -> tuple[str, ...]:
    return tuple(text.split())


VIEWS = frozenset(
    _named(
        "Identity IdentityN Reshape ExpandDims Squeeze StopGradient PreventGradient "
        "Snapshot EnsureShape CheckNumerics Bitcast ReadVariableOp OptionalGetValue "
        "OptionalFromValue"
    )
)
"""Hand on their first input, or each of them, in the same memory."""

KNOWN_BEFORE = frozenset(
    _named("Const Shape ShapeN Size Rank ZerosLike OnesLike EmptyTensorList Fill Range")
)
"""Constants of a compiled program, whatever they look at: shapes are fixed."""

HOST = frozenset(
    _named(
        "NoOp Assert Placeholder PlaceholderWithDefault VarHandleOp Print PrintV2 "
        "BroadcastGradientArgs BroadcastArgs AssignVariableOp AssignAddVariableOp "
        "AssignSubVariableOp ControlTrigger TensorListReserve "
        "TensorListStack TensorListFromTensor TensorListLength TensorListElementShape "
        "TensorListPushBack TensorListPopBack TensorListResize TensorListConcatLists "
        "StatelessRandomGetKeyCounter StatelessRandomGetAlg Empty "
        "StatelessRandomGetKeyCounterAlg OptionalNone"
    )
)
"""Cost nothing on the device; elements of loops' lists stay where they are."""


_CHEAP = _named(
    "Add AddV2 AddN AccumulateNV2 Sub Mul Neg Abs Square SquaredDifference Maximum "
    "Minimum Relu Relu6 BiasAdd BiasAddV1 Sign Cast LogicalAnd LogicalOr LogicalNot "
    "LogicalXor Equal NotEqual Greater GreaterEqual Less LessEqual ClipByValue "
    "BitwiseAnd BitwiseOr BitwiseXor Invert RightShift LeftShift MulNoNan Real Imag "
    "Conj Complex"
)
_CHOOSING = _named(
    "Select SelectV2 ReluGrad Relu6Grad LeakyRelu LeakyReluGrad SigmoidGrad TanhGrad "
    "EluGrad SeluGrad SoftplusGrad SoftsignGrad SqrtGrad RsqrtGrad ReciprocalGrad "
    "InvGrad IsNan IsInf IsFinite Round Rint Floor Ceil OneHot MatrixDiagV3 "
    "MatrixDiagPartV3 MatrixBandPart MatrixSetDiagV3"
)
_COSTLY = _named(
    "RealDiv Div DivNoNan FloorDiv FloorMod Mod TruncateDiv TruncateMod Xdivy Xlogy "
    "Xlog1py Exp Expm1 Log Log1p Pow Sqrt Rsqrt Reciprocal Inv Erf Erfc Erfinv Ndtri "
    "Sin Cos Tan Asin Acos Atan Atan2 Sinh Cosh Asinh Acosh Atanh Lgamma Digamma Elu "
    "Selu Softplus Softsign NextAfter ComplexAbs Angle Betainc Igamma Igammac"
)
CYCLES: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(_CHEAP, (ADD.per_vector,) * 2),
    **dict.fromkeys(_CHOOSING, (SELECT.per_vector,) * 2),
    **dict.fromkeys(_COSTLY, (OTHER.per_vector,) * 2),
    "Sigmoid": VECTOR_CYCLES["sigmoid"],
    "Tanh": VECTOR_CYCLES["tanh"],
}
"""Cycles per vector of operations on every value, in fp32 and fp16."""

ACTIVATIONS: Mapping[str, str] = {
    "Softmax": "softmax",
    "LogSoftmax": "log_softmax",
    "SoftmaxCrossEntropyWithLogits": "softmax",
    "SparseSoftmaxCrossEntropyWithLogits": "softmax",
    "Relu": "relu",
    "Relu6": "relu6",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Elu": "elu",
    "Selu": "selu",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "LeakyRelu": "leaky_relu",
}
"""What PopLibs has a call for: it runs alone, also beside other passes."""

ACTIVATION_GRADIENTS: Mapping[str, str] = {
    f"{kind}Grad": f"{name} gradient" for kind, name in ACTIVATIONS.items()
}

_BY_KIND = {
    OpKind.REDUCTION: (
        "Sum Mean Max Min Prod All Any ArgMax ArgMin BiasAddGrad L2Loss EuclideanNorm "
        "Bincount DenseBincount"
    ),
    OpKind.POOL: "MaxPool MaxPoolV2 AvgPool MaxPool3D AvgPool3D MaxPoolWithArgmax",
    OpKind.POOL_GRADIENT: (
        "MaxPoolGrad MaxPoolGradV2 AvgPoolGrad MaxPool3DGrad AvgPool3DGrad "
        "MaxPoolGradWithArgmax"
    ),
    OpKind.NORM: "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3",
    OpKind.NORM_GRADIENT: (
        "FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3"
    ),
    OpKind.RANDOM: (
        "RandomUniform RandomUniformInt RandomStandardNormal TruncatedNormal "
        "StatelessRandomUniform StatelessRandomUniformV2 StatelessRandomUniformInt "
        "StatelessRandomUniformIntV2 StatelessRandomUniformFullInt "
        "StatelessRandomUniformFullIntV2 StatelessRandomNormal StatelessRandomNormalV2 "
        "StatelessTruncatedNormal StatelessTruncatedNormalV2 StatelessRandomBinomial "
        "StatelessRandomGammaV2 StatelessRandomGammaV3 StatelessRandomPoisson "
        "RandomGamma RandomPoissonV2 Multinomial StatelessMultinomial RandomShuffle"
    ),
    OpKind.GATHER: (
        "Gather GatherV2 GatherNd ResourceGather ResourceGatherNd TensorListGetItem "
        "ResizeNearestNeighbor ResizeBilinear ResizeBicubic ResizeArea CropAndResize "
        "ImageProjectiveTransformV3 DynamicStitch DynamicPartition Where"
    ),
    OpKind.SCATTER: (
        "ScatterNd UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin "
        "UnsortedSegmentProd SegmentSum SegmentSumV2 SegmentMean SegmentMax SegmentMin "
        "TensorScatterUpdate TensorScatterAdd TensorScatterSub TensorScatterMax "
        "TensorScatterMin TensorListSetItem ResizeNearestNeighborGrad "
        "ResizeBilinearGrad ResizeBicubicGrad CropAndResizeGradImage "
        "TensorListScatterV2 SparseSegmentSum"
    ),
    OpKind.TRANSPOSE: (
        "Transpose ConjugateTranspose Einsum DepthToSpace SpaceToDepth BatchToSpaceND "
        "SpaceToBatchND Reverse ReverseV2 ReverseSequence Roll ExtractImagePatches"
    ),
    OpKind.COPY: (
        "ConcatV2 Concat Pack Unpack Slice StridedSlice Split SplitV Pad PadV2 "
        "MirrorPad MirrorPadGrad StridedSliceGrad Tile BroadcastTo "
        "TensorStridedSliceUpdate DynamicUpdateSlice TensorListGather"
    ),
    OpKind.SORT: "TopK TopKV2 InTopKV2 Unique UniqueV2",
    OpKind.SCAN: "Cumsum Cumprod CumulativeLogsumexp",
}
KINDS: Mapping[str, OpKind] = {
    name: kind for kind, names in _BY_KIND.items() for name in names.split()
}
"""Operations that are costed by the size of what they take and make.

Products are found before; an `Einsum` that is left has a single input.
"""
