"""Operations have one cost, whether a kind lists them or a graph was read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ipu_runtime.plan.costs.op_costs import Costing
from ipu_runtime.plan.costs.operation_costs import cost_operation
from ipu_runtime.plan.layers.shapes import forward_operations, kind_of, shaped_layer
from ipu_runtime.plan.layers.tensors import find_tensors
from ipu_runtime.plan.model.model_json import model_from_json, model_to_json
from ipu_runtime.plan.model.model_spec import Layer, LayerSpec, ModelSpec, Weight
from ipu_runtime.plan.model.operations import (
    Operation,
    OpKind,
    TracedWork,
    joined,
    values_at,
)
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.request import PlanRequest

COST = Costing(1472, 624 * 1024, 64, 16, half=False)
PRODUCT = Operation(OpKind.MATMUL, "MatMul", (-1, 256, 128))
ADD = Operation(OpKind.ELEMENTWISE, "AddV2", (-1, 128))


def model(work: TracedWork) -> ModelSpec:
    """Return a model of one traced layer with a kernel of 256 x 128."""
    data = shaped_layer(LayerSpec("data", "Input", {"shape": [256]}), (), "")
    assert isinstance(data, Layer)
    layer = Layer(
        LayerSpec("odd", "Odd", {}, ("data",)),
        ((256,),),
        (128,),
        (Weight("kernel", (256, 128)),),
        traced=work,
    )
    return ModelSpec((data, layer), ("odd",))


def planned(work: TracedWork, batch: int = 16, **options: Any) -> Plan:
    return make_plan(PlanRequest(model(work), batch, batches=10, **options))


def test_a_traced_product_costs_what_a_dense_layer_costs() -> None:
    spec = LayerSpec("x", "Dense", {"units": 128, "use_bias": False}, ("data",))
    dense = shaped_layer(spec, ((256,),), "")
    assert isinstance(dense, Layer)
    (own,) = forward_operations(dense, True)
    listed, traced = (cost_operation(op, 16, COST) for op in (own, PRODUCT))
    assert listed._replace(name="MatMul") == traced


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_extents_that_grow_are_those_of_the_batch(batch: int) -> None:
    grown = replace(PRODUCT, shape=(batch, 256, 128))
    assert cost_operation(PRODUCT, batch, COST) == cost_operation(grown, 3, COST)


def test_dimensions_are_joined_with_the_batch_among_them() -> None:
    assert joined((-1, 7, 7)) == -49
    assert joined((7, 7)) == 49
    assert values_at((-49, 64), 2) == 2 * 49 * 64


def test_a_loop_costs_every_trip_and_has_its_code_once() -> None:
    once, often = (cost_operation(replace(ADD, repeat=n), 8, COST) for n in (1, 30))
    assert often.work == 30 * once.work
    assert often.supersteps == 30 * once.supersteps
    assert often.shape == once.shape
    per_sample = cost_operation(replace(ADD, repeat=-3), 10, COST)
    assert per_sample.work == pytest.approx(
        30 * cost_operation(ADD, 10, COST).work, rel=1e-9
    )


@pytest.mark.parametrize("kind", list(OpKind))
def test_every_kind_has_a_cost_that_does_not_fall_with_the_batch(kind: OpKind) -> None:
    extents = {
        OpKind.MATMUL: 3,
        OpKind.PRODUCT: 4,
        OpKind.CONVOLUTION: 6,
        OpKind.DATA_GRADIENT: 5,
        OpKind.WEIGHT_GRADIENT: 5,
    }
    op = Operation(kind, "op", (-4096, *(8,) * (extents.get(kind, 2) - 1)))
    small, large = (cost_operation(op, batch, COST) for batch in (1, 64))
    assert 0 < small.work < large.work
    assert small.supersteps > 0


def test_half_precision_is_the_operations_own() -> None:
    large = replace(ADD, shape=(-1, 100_000))
    half = cost_operation(replace(large, value_bytes=2), 16, COST)
    assert half.work < cost_operation(large, 16, COST).work


def test_inference_and_training_have_their_own_operations() -> None:
    work = TracedWork(
        forward=(PRODUCT, ADD), inference=(PRODUCT,), backward=(PRODUCT,) * 2
    )
    (trained,), (inferred,) = (
        planned(work, training=training).layers for training in (True, False)
    )
    names = [op.name for op in trained.forward_ops]
    assert names[:2] == ["MatMul", "AddV2"]
    assert [op.name for op in inferred.forward_ops][:1] == ["MatMul"]
    assert "AddV2" not in [op.name for op in inferred.forward_ops]


def test_gradients_of_inputs_are_left_out_where_nothing_needs_them() -> None:
    work = TracedWork(backward=(PRODUCT, ADD), weights_backward=(ADD,))
    (layer,) = planned(work).layers
    assert "MatMul" not in [op.name for op in layer.backward_ops]
    assert "AddV2" in [op.name for op in layer.backward_ops]


def test_what_is_kept_takes_memory() -> None:
    little, much = (
        planned(TracedWork((PRODUCT,), kept_values=values)).layers[0].stash_bytes
        for values in (0, 1000)
    )
    assert much - little == 16 * 4 * 1000


def test_a_layer_that_does_nothing_is_a_view() -> None:
    spec = model(TracedWork())
    same = replace(spec.layers[1], output_shape=(16, 16))
    assert kind_of(same).view
    assert not kind_of(spec.layers[1]).view
    assert len(find_tensors(ModelSpec((spec.layers[0], same), ("odd",))).tensors) == 1


def test_remarks_are_warnings_that_stop_nothing() -> None:
    plan = planned(TracedWork((PRODUCT,), remarks=("Svd: not known",)))
    (problem,) = plan.problems
    assert problem.severity is Severity.WARNING
    assert "odd (Odd): Svd: not known" in str(problem)
    assert plan.samples_per_second > 0


def test_json_brings_everything_back() -> None:
    work = TracedWork(
        (PRODUCT,), (PRODUCT, ADD), (ADD,), (), True, True, 3, 4, True, ("rough",)
    )
    spec = model(work)
    assert model_from_json(json.loads(json.dumps(model_to_json(spec)))) == spec


@pytest.mark.parametrize("content", [{}, {"layers": 3}, {"layers": [{}]}, []])
def test_json_that_is_no_model_is_refused(content: Any) -> None:
    with pytest.raises(ValueError, match="not a stored model"):
        model_from_json(content)
