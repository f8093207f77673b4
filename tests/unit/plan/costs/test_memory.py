"""Memory by category, against figures that were worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ipu_runtime.plan.costs.matrix_unit import MatrixMode, MatrixShape, plan_pass
from ipu_runtime.plan.layers.shapes import resolve_model
from ipu_runtime.plan.model.model_spec import LayerSpec, ModelSpec
from ipu_runtime.plan.plan import IpuMemory, Plan
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.request import PipelineRequest, PlanRequest
from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind

STAGES = (0, 0, 0, 1, 1, 1, 1)
# Values of one sample: image, conv1 and pool1 out, conv2 out; relu works in place.
IMAGE, CONV1, POOL1, CONV2 = 784, 26 * 26 * 32, 13 * 13 * 32, 11 * 11 * 64
POOL2 = 1600


@pytest.fixture(scope="module")
def base(mnist_cnn: ModelSpec) -> PlanRequest:
    return PlanRequest(mnist_cnn, 64, 936, label_values=10, steps_per_execution=936)


@pytest.fixture(scope="module")
def pipelined(base: PlanRequest) -> PlanRequest:
    return replace(
        base, ipus=2, gradient_accumulation=8, pipeline=PipelineRequest(STAGES)
    )


def filled(plan: Plan) -> float:
    item = max(plan.memory, key=lambda item: item.fullest_tile_bytes)
    return item.fullest_tile_bytes / item.tile_capacity_bytes


def always_live(item: IpuMemory) -> int:
    names = ("weights", "optimizer", "accumulators", "code", "io")
    return sum(item.by_category[name] for name in names)


def test_mnist_takes_12_percent(base: PlanRequest) -> None:
    plan = make_plan(base)
    (item,) = plan.memory
    assert always_live(item) / 1e6 == pytest.approx(41, abs=1)
    # The gradient of conv2's kernel: what is kept, and gradients on both sides.
    live = IMAGE + CONV1 + POOL1 + CONV2 + CONV2 + POOL1
    kernel = 3 * 3 * 32 * 64 + 64
    assert item.by_category["activations"] == 64 * 4 * live + 4 * kernel
    # Of 4, 121 and 3 parts of channels out, in (of blocks of 8) and positions, a tile
    # has 16, 64 and 96: copies of what it multiplies, and its partials.
    assert item.by_category["temporaries"] == 4 * (96 * 64 + 64 * 16 + 96 * 16) * 1472
    assert item.used_bytes / 1e6 == pytest.approx(105, abs=1)
    assert filled(plan) == pytest.approx(0.124, abs=0.005)
    assert item.fits


def resnet_request(model: ModelSpec, **config: Any) -> PlanRequest:
    proportion = config.pop("proportion", "0.6")
    options = {"partialsType": "half", "availableMemoryProportion": proportion}
    return PlanRequest(
        model,
        16,
        1000,
        steps_per_execution=4,
        gradient_accumulation=4,
        optimizer="momentum",
        config={
            "convolutions.poplar_options": options,
            "matmuls.poplar_options": options,
            **config,
        },
    )


@pytest.fixture(scope="module")
def resnet_plan(resnet50: ModelSpec) -> Plan:
    return make_plan(resnet_request(resnet50))


def test_resnet50_has_its_known_size(resnet50: ModelSpec) -> None:
    trained = sum(
        weight.size
        for layer in resnet50.layers
        for weight in layer.weights
        if weight.trainable
    )
    assert trained == 25_557_032
    multiply_adds = sum(layer.flops for layer in resnet50.layers) / 2
    assert multiply_adds == pytest.approx(4.09e9, rel=0.01)


def test_resnet50_does_not_fit_without_recomputation(resnet_plan: Plan) -> None:
    assert filled(resnet_plan) == pytest.approx(1.39, abs=0.02)
    # Code is only known to 30 %.
    assert always_live(resnet_plan.memory[0]) / 1e6 == pytest.approx(370, rel=0.05)
    assert resnet_plan.memory[0].by_category["code"] / 1e6 == pytest.approx(
        205, rel=0.3
    )
    kept = sum(layer.stash_bytes for layer in resnet_plan.layers)
    assert kept / 1e6 == pytest.approx(711, rel=0.06)


@pytest.mark.parametrize(("proportion", "fill"), [("0.6", 0.86), ("0.1", 0.80)])
def test_resnet50_fits_with_checkpoints_at_block_inputs(
    resnet50: ModelSpec, proportion: str, fill: float
) -> None:
    request = resnet_request(resnet50, allow_recompute=True, proportion=proportion)
    plan = make_plan(request)
    assert filled(plan) == pytest.approx(fill, abs=0.02)
    assert plan.ok


def test_recomputation_costs_another_forward_pass(
    resnet50: ModelSpec, resnet_plan: Plan
) -> None:
    plan = make_plan(resnet_request(resnet50, allow_recompute=True))
    forward = sum(layer.forward_us for layer in resnet_plan.layers)
    assert 0.7 * forward < plan.stages[0].recompute_us < forward
    added = plan.ipu_step_us - resnet_plan.ipu_step_us
    assert added == pytest.approx(plan.stages[0].recompute_us)


def test_what_does_not_fit_names_ipu_excess_and_tried_remedies(
    resnet_plan: Plan,
) -> None:
    (problem,) = resnet_plan.problems
    assert problem.severity is Severity.NO_FIT
    assert "IPU 0" in problem.problem
    assert "MB too much" in problem.problem
    assert "ipu.allow_recompute = true fits" in problem.hint
    assert "data.batch_size = 8 fits" in problem.hint
    # Advice names its price: fewer samples an update train otherwise.
    assert "more updates an epoch)" in problem.hint
    assert (problem.where, problem.suggestion) == ("ipu.allow_recompute", True)
    assert not resnet_plan.ok


@pytest.mark.parametrize(
    ("schedule", "depth"),
    [
        (ScheduleKind.GROUPED, 2),
        (ScheduleKind.INTERLEAVED, 1),
        (ScheduleKind.SEQUENTIAL, 0),
    ],
)
def test_stash_follows_the_schedule(
    pipelined: PlanRequest, schedule: ScheduleKind, depth: int
) -> None:
    plan = make_plan(replace(pipelined, pipeline=PipelineRequest(STAGES, schedule)))
    kept = 64 * 4 * (IMAGE + CONV1 + POOL1 + CONV2)
    assert [stage.fifo_depth for stage in plan.stages] == [depth, 0]
    assert plan.memory[0].by_category["stash"] == depth * kept
    assert plan.memory[1].by_category["stash"] == 0


def test_recomputation_stashes_stage_inputs_only(pipelined: PlanRequest) -> None:
    pipeline = PipelineRequest(STAGES, recomputation=Recomputation.THEN_BACKPROPAGATE)
    plan = make_plan(replace(pipelined, pipeline=pipeline))
    assert plan.memory[0].by_category["stash"] == 2 * 64 * 4 * IMAGE
    # Everything of stage 0 but the infeed is done again, the last stage never.
    again = plan.layers[0].forward_us + plan.layers[1].forward_us
    again += plan.layers[2].forward_us
    assert plan.stages[0].recompute_us == pytest.approx(again)
    assert plan.stages[1].recompute_us == 0


def test_dropout_masks_are_stashed_even_when_recomputing(
    pipelined: PlanRequest,
) -> None:
    pipeline = PipelineRequest(
        (0, 0, 0, 0, 0, 0, 1), recomputation=Recomputation.THEN_BACKPROPAGATE
    )
    plan = make_plan(replace(pipelined, pipeline=pipeline))
    assert plan.memory[0].by_category["stash"] == 2 * 64 * (4 * IMAGE + POOL2)


def test_offloading_trades_stash_for_time(pipelined: PlanRequest) -> None:
    kept = make_plan(pipelined)
    pipeline = PipelineRequest(STAGES, offload_activations=True)
    away = make_plan(replace(pipelined, pipeline=pipeline))
    assert away.memory[0].by_category["stash"] == 0
    assert kept.memory[0].by_category["stash"] > 0
    assert away.stages[0].forward_us > kept.stages[0].forward_us
    assert away.ipu_step_us > kept.ipu_step_us


def test_the_stash_never_holds_more_than_there_is(pipelined: PlanRequest) -> None:
    stages = (0, 1, 2, 3, 3, 3, 3)
    request = replace(
        pipelined, ipus=4, gradient_accumulation=4, pipeline=PipelineRequest(stages)
    )
    assert make_plan(request).stages[0].fifo_depth == 3


def test_partials_that_nothing_reduces_are_the_result_itself() -> None:
    # One output channel block and enough rows that no tile shares them.
    wide = MatrixShape(positions=200_000, channels_in=16, channels_out=16)
    half = MatrixMode(16, 16, 4, 2, 2, 1472, 638_976)
    mixed = half._replace(block_out=8, partial_bytes=4)
    alone, cast = plan_pass(wide, half, 0.6), plan_pass(wide, mixed, 0.6)
    assert alone.in_split == alone.taps_split == cast.in_split == 1
    operands = alone.positions_per_tile * 16 * 2 + 16 * 16 * 2
    assert alone.temporary_bytes == operands
    channels = -(-16 // cast.out_split)
    operands = cast.positions_per_tile * 16 * 2 + 16 * channels * 2
    partials = cast.positions_per_tile * channels * 4
    assert cast.temporary_bytes == operands + partials


def test_attention_has_gradients_that_only_it_knows() -> None:
    tokens, width, heads, batch = 1024, 64, 4, 2
    spec = [
        LayerSpec("x", "Input", {"shape": [tokens, width]}),
        LayerSpec(
            "attention",
            "MultiHeadAttention",
            {"num_heads": heads, "key_dim": width // heads},
            ("x", "x"),
        ),
    ]
    model, _ = resolve_model(spec)
    assert model is not None
    (item,) = make_plan(PlanRequest(model, batch, 64)).memory
    scores, projected = heads * tokens * tokens, 4 * tokens * width
    # Scores and what they came from are kept, and each has its gradient.
    kept_and_gradients = 2 * batch * 4 * (scores + projected)
    assert item.by_category["activations"] > kept_and_gradients
    # Besides: what comes in and goes out, the latter's gradient, and the weights'.
    others = 3 * batch * 4 * tokens * width + 4 * 4 * (width * width + width)
    assert item.by_category["activations"] <= kept_and_gradients + others


@pytest.mark.parametrize("accumulation", [1, 8])
def test_merged_sums_over_replicas_wait_for_the_update(
    base: PlanRequest, accumulation: int
) -> None:
    name = "optimizations.maximum_cross_replica_sum_buffer_size"
    request = replace(
        base,
        batches=960,
        ipus=2,
        gradient_accumulation=accumulation,
        steps_per_execution=accumulation,
    )
    plain = make_plan(request).memory[0]
    merged = make_plan(replace(request, config={name: 10**9})).memory[0]
    # Accumulated, the gradients are summed when no activation is there any more.
    added = 0 if accumulation > 1 else 34_826 * 4
    assert merged.used_bytes - plain.used_bytes == added
    assert merged.by_category["io"] - plain.by_category["io"] == added


def test_equal_layers_share_exchange_code_even_without_outlining() -> None:
    def code(layers: int, outlining: bool) -> int:
        spec = [LayerSpec("x", "Input", {"shape": [1024]})]
        for at in range(layers):
            name = spec[-1].name
            spec.append(LayerSpec(f"dense_{at}", "Dense", {"units": 1024}, (name,)))
        model, _ = resolve_model(spec)
        assert model is not None
        config = {"optimizations.enable_graph_outlining": outlining}
        request = PlanRequest(model, 8, 64, training=False, config=config)
        return make_plan(request).memory[0].by_category["code"]

    # State and control code of a product and its bias, and 28 % of their exchange code.
    again = 86_000 + 104_000 + 0.28 * 480_000 + 20_000 + 31_000 + 0.28 * 21_000
    assert code(6, False) - code(5, False) == pytest.approx(again, abs=2)
    assert code(6, True) - code(5, True) == pytest.approx(104_000 + 31_000, abs=2)


@pytest.mark.parametrize(
    ("optimizer", "copies"), [("sgd", 0), ("momentum", 1), ("adam", 2)]
)
def test_optimizer_state(base: PlanRequest, optimizer: str, copies: int) -> None:
    (item,) = make_plan(replace(base, optimizer=optimizer)).memory
    assert item.by_category["optimizer"] == copies * 34_826 * 4
    assert item.by_category["accumulators"] == 0


def test_tiles_add_up_to_the_whole(base: PlanRequest) -> None:
    (item,) = make_plan(base).memory
    tiles = item.tile_bytes
    assert len(tiles) == 1472
    assert tiles[0] == item.fullest_tile_bytes
    assert list(tiles) == sorted(tiles, reverse=True)
    assert sum(tiles) == pytest.approx(item.used_bytes, rel=1e-3)


def test_evaluation_keeps_no_activations(base: PlanRequest) -> None:
    (item,) = make_plan(replace(base, training=False)).memory
    # With its temporaries, conv2 is the fullest moment.
    assert item.by_category["activations"] == 64 * 4 * (POOL1 + CONV2)


def test_state_in_streaming_memory_costs_time_instead(pipelined: PlanRequest) -> None:
    request = replace(pipelined, optimizer="adam")
    here = make_plan(request)
    cut = PipelineRequest(STAGES, offload_optimizer_state=True)
    away = make_plan(replace(request, pipeline=cut))
    assert here.memory[0].by_category["optimizer"] > 0
    assert [item.by_category["optimizer"] for item in away.memory] == [0, 0]
    assert sum(layer.resident_bytes for layer in away.layers) == (
        sum(layer.resident_bytes for layer in here.layers) - 2 * 34_826 * 4
    )
    # Two values of state per weight, fetched and sent back; two IPUs share 20 GB/s.
    weights = 3 * 3 * 32 + 32 + 3 * 3 * 32 * 64 + 64
    added = away.stages[0].update_us - here.stages[0].update_us
    assert added == pytest.approx(2 * 2 * weights * 4 / 10e3)


def test_replicas_fetch_their_share_of_the_state(pipelined: PlanRequest) -> None:
    request = replace(pipelined, optimizer="momentum", ipus=4, system="Pod4")
    sgd, whole, shared = (
        make_plan(replace(request, optimizer=optimizer, pipeline=cut)).stages[1]
        for optimizer, cut in (
            ("momentum", PipelineRequest(STAGES)),
            ("momentum", PipelineRequest(STAGES, offload_optimizer_state=True)),
            (
                "momentum",
                PipelineRequest(
                    STAGES, offload_optimizer_state=True, shard_optimizer_state=True
                ),
            ),
        )
    )
    fetched = whole.update_us - sgd.update_us
    assert shared.update_us - sgd.update_us == pytest.approx(fetched / 2)


def test_weights_that_replicas_share_are_gathered_for_every_pass(
    pipelined: PlanRequest,
) -> None:
    request = replace(pipelined, ipus=4, system="Pod4")
    cuts = [
        PipelineRequest(STAGES, shard_weights=shard, offload_weights=offload)
        for shard, offload in ((False, True), (True, False), (True, True))
    ]
    whole, shared, away = (make_plan(replace(request, pipeline=cut)) for cut in cuts)
    convolutions = 4 * (3 * 3 * 32 + 32), 4 * (3 * 3 * 32 * 64 + 64)
    weights = sum(convolutions)
    held = [p.memory[0].by_category["weights"] for p in (whole, shared, away)]
    # The larger convolution is there while it runs, all of it.
    assert held == [weights, weights // 2 + convolutions[1], convolutions[1]]
    # Half of the weights come over the links of a pair; four tensors, two hops.
    gathered = 4 * (6.5 + 0.5) + weights / 2 / 54e3
    # Four IPUs share 20 GB/s, and each fetches its half.
    fetched = weights / 2 / 5e3
    for plan, added in ((shared, gathered), (away, gathered + fetched)):
        stage, before = plan.stages[0], whole.stages[0]
        assert stage.forward_us - before.forward_us == pytest.approx(added)
        assert stage.backward_us - before.backward_us == pytest.approx(added)
    assert shared.stages[0].update_us == pytest.approx(whole.stages[0].update_us)
    added = away.stages[0].update_us - whole.stages[0].update_us
    assert added == pytest.approx(2 * fetched)
    assert away.samples_per_second < shared.samples_per_second


def test_weights_gathered_again_where_a_stage_is_recomputed(
    pipelined: PlanRequest,
) -> None:
    mode = Recomputation.THEN_BACKPROPAGATE
    cut = PipelineRequest(STAGES, recomputation=mode, shard_weights=True)
    request = replace(pipelined, ipus=4, system="Pod4", pipeline=cut)
    here = replace(request, pipeline=replace(cut, shard_weights=False))
    plan, before = make_plan(request), make_plan(here)
    first, last = (
        stage.recompute_us - other.recompute_us
        for stage, other in zip(plan.stages, before.stages, strict=True)
    )
    added = plan.stages[0].forward_us - before.stages[0].forward_us
    assert first == pytest.approx(added)
    assert last == 0


def test_one_replica_alone_keeps_its_weights(pipelined: PlanRequest) -> None:
    cut = PipelineRequest(STAGES, shard_weights=True, offload_weights=True)
    alone = make_plan(replace(pipelined, pipeline=cut))
    assert alone.memory == make_plan(pipelined).memory
    assert any("nobody to share" in item.problem for item in alone.problems)


def test_sums_of_gradients_in_streaming_memory_are_fetched_by_every_pass(
    pipelined: PlanRequest,
) -> None:
    here = make_plan(pipelined)
    cut = PipelineRequest(STAGES, offload_accumulators=True)
    away = make_plan(replace(pipelined, pipeline=cut))
    large, weights = 3 * 3 * 32 * 64 + 64, 3 * 3 * 32 + 32 + 3 * 3 * 32 * 64 + 64
    assert here.memory[0].by_category["accumulators"] == 4 * weights
    assert away.memory[0].by_category["accumulators"] == 4 * large
    # Fetched and sent back; two IPUs share 20 GB/s.
    added = 2 * 4 * weights / 10e3
    for kind in ("backward_us", "update_us"):
        before = getattr(here.stages[0], kind)
        assert getattr(away.stages[0], kind) - before == pytest.approx(added)
    assert away.stages[0].forward_us == here.stages[0].forward_us


def residual(blocks: int, width: int = 1024) -> ModelSpec:
    """Return blocks of two layers with a skip connection around them."""
    layers = [LayerSpec("x", "Input", {"shape": [width]})]
    for at in range(blocks):
        before = layers[-1].name
        layers += [
            LayerSpec(f"a{at}", "Dense", {"units": width}, (before,)),
            LayerSpec(f"b{at}", "Dense", {"units": width}, (f"a{at}",)),
            LayerSpec(f"sum{at}", "Add", {}, (before, f"b{at}")),
        ]
    model, problems = resolve_model(layers)
    assert model is not None, problems
    return model


def test_recomputing_on_the_way_back_keeps_checkpoints_and_one_segment() -> None:
    stages = (0,) * 12 + (1,) * 12
    plans = {
        mode: make_plan(
            PlanRequest(
                residual(8),
                64,
                64,
                ipus=2,
                gradient_accumulation=8,
                steps_per_execution=8,
                pipeline=PipelineRequest(stages, recomputation=mode),
            )
        )
        for mode in Recomputation
    }
    value = 64 * 1024 * 4
    stash = {mode: plan.memory[0].by_category["stash"] for mode, plan in plans.items()}
    # Two micro-batches wait; of each, the input, and the three sums inside the stage.
    assert stash[Recomputation.THEN_BACKPROPAGATE] == 2 * value
    assert stash[Recomputation.WITH_BACKPROPAGATE] == 2 * 4 * value
    live = {
        mode: plan.memory[0].by_category["activations"] for mode, plan in plans.items()
    }
    saved = (
        live[Recomputation.THEN_BACKPROPAGATE] - live[Recomputation.WITH_BACKPROPAGATE]
    )
    # Three of four blocks have nothing but their input on the IPU.
    assert saved == 3 * value
    again = {mode: plan.stages[1].recompute_us for mode, plan in plans.items()}
    assert again[Recomputation.THEN_BACKPROPAGATE] == 0
    # The last stage recomputes all but its last block.
    forward = plans[Recomputation.OFF].stages[1].forward_us
    assert 0.5 < again[Recomputation.WITH_BACKPROPAGATE] / forward < 0.8
