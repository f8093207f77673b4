"""What the outputs of a model are, from the last thing that is done to them."""

from __future__ import annotations

from collections.abc import Mapping

from ipu_runtime.engine.describe.call_graph import call_in_graph
from ipu_runtime.engine.describe.loop_trips import origin
from ipu_runtime.engine.describe.model_graph import Call, ModelGraph
from ipu_runtime.engine.describe.repeatable_call import RepeatableCall, call_of_node
from ipu_runtime.frameworks.tensorflow_graphs import FuncGraph

_MOVES = frozenset(("Cast", "Transpose", "StridedSlice", "Slice", "Pack"))
"""Leave values as they are; what is packed is the steps of a sequence."""
_ACTIVATION_OF_OP = {
    "Softmax": "softmax",
    "Sigmoid": "sigmoid",
    **dict.fromkeys(
        (
            "MatMul",
            "BatchMatMulV2",
            "BatchMatMulV3",
            "Einsum",
            "BiasAdd",
            "AddV2",
            "Add",
            "Conv2D",
            "Conv3D",
            "Conv2DBackpropInput",
            "Conv3DBackpropInputV2",
            "DepthwiseConv2dNative",
        ),
        "linear",
    ),
}


def output_activations(graph: ModelGraph) -> list[str]:
    """Return softmax, sigmoid, linear or nothing for every output of a model."""
    maker = {slot: call for call in graph.calls for slot in call.outputs}
    return [_activation(slot, maker) for slot in graph.outputs]


def _activation(slot: int, maker: Mapping[int, Call]) -> str:
    """Look at the call that makes a value, and before it while values only move."""
    while slot in maker:
        call = maker[slot]
        found, taken = last_activation(call_of_node(call), call.outputs.index(slot))
        if taken is None:
            return found
        slot = call.slots[id(call.arguments.keras_tensors[taken])]
    return ""


def last_activation(call: RepeatableCall, output: int) -> tuple[str, int | None]:
    """Return what makes an output of a call, or the number of the input that it is."""
    try:
        with FuncGraph("end").as_default():
            inputs, _, outputs = call_in_graph(call, 1, False)
    except Exception:  # a layer may raise anything when it is called
        return "", None
    tensor = origin(outputs[output])
    while tensor.op.type in _MOVES:
        tensor = origin(tensor.op.inputs[0])
    places = [at for at, symbol in enumerate(inputs) if symbol is tensor]
    return _ACTIVATION_OF_OP.get(tensor.op.type, ""), places[0] if places else None
