"""Counts, inference, pipelines and whatever a request may have wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipu_runtime.plan.layers.shapes import LAYER_KINDS
from ipu_runtime.plan.model.model_spec import Layer, ModelSpec
from ipu_runtime.plan.model.operations import Operation
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.request import PipelineRequest, PlanRequest
from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind
from ipu_runtime.plan.schedule.timeline import StageTimes, Timeline, build_timeline

STAGES = (0, 0, 0, 1, 1, 1, 1)


@pytest.fixture(scope="module")
def base(mnist_cnn: ModelSpec) -> PlanRequest:
    return PlanRequest(mnist_cnn, 64, 937, label_values=10)


def pipelined(base: PlanRequest, **changes: Any) -> PlanRequest:
    request = replace(
        base,
        batches=936,
        ipus=2,
        steps_per_execution=936,
        gradient_accumulation=8,
        pipeline=PipelineRequest(STAGES),
    )
    return replace(request, **changes)


def test_replicas_share_batches_and_drop_the_rest(base: PlanRequest) -> None:
    plan = make_plan(replace(base, ipus=4, steps_per_execution=26, batches=938))
    assert (plan.replicas, plan.ipus, plan.ipus_per_replica) == (4, 4, 1)
    assert (plan.steps_per_epoch, plan.batches_dropped) == (234, 2)
    assert (plan.executions_per_epoch, plan.updates_per_epoch) == (9, 234)


def test_steps_per_execution_are_lowered_to_the_epoch(base: PlanRequest) -> None:
    plan = make_plan(replace(base, steps_per_execution=5000))
    assert plan.steps_per_execution == 937
    assert plan.executions_per_epoch == 1


def test_three_stages_reserve_four_ipus(base: PlanRequest) -> None:
    plan = make_plan(
        pipelined(
            base,
            ipus=8,
            batches=936,
            steps_per_execution=12,
            gradient_accumulation=6,
            pipeline=PipelineRequest((0, 0, 0, 1, 1, 2, 2)),
        )
    )
    assert (plan.replicas, plan.ipus, plan.ipus_per_replica) == (2, 8, 4)
    assert len(plan.memory) == 3


def test_accumulation_updates_and_reduces_less_often(base: PlanRequest) -> None:
    once = make_plan(replace(base, ipus=2, batches=936)).step
    rarely = make_plan(
        replace(
            base, ipus=2, batches=936, gradient_accumulation=4, steps_per_execution=4
        )
    )
    assert once is not None
    assert rarely.step is not None
    assert rarely.step.update_us == pytest.approx(once.update_us / 4)
    assert rarely.step.links_us == pytest.approx(once.links_us / 4)
    assert rarely.updates_per_epoch == 468 // 4
    # Each of the six gradients is added to its accumulator in a superstep.
    adds = (rarely.step.sync_us - once.sync_us) * 1325 / 1200
    assert adds == pytest.approx(6)


def test_parts_of_a_layer_give_its_time(base: PlanRequest) -> None:
    for layer in make_plan(base).layers:
        cycles = sum(op.work + 1200 * op.supersteps for op in layer.forward_ops)
        assert layer.forward_us == pytest.approx(cycles / 1325)
        assert sum(layer.forward_cycles.values()) == pytest.approx(cycles)


def test_bow_scales_device_time_by_its_clock(base: PlanRequest) -> None:
    here, bow = make_plan(base).step, make_plan(replace(base, system="Bow-Pod16")).step
    assert here is not None
    assert bow is not None
    assert bow.compute_us / here.compute_us == pytest.approx(0.716, abs=0.001)
    assert bow.sync_us / here.sync_us == pytest.approx(0.716, abs=0.001)
    assert bow.infeed_us == here.infeed_us
    assert bow.launch_us == here.launch_us


def test_first_chip_generation_has_less_of_everything(base: PlanRequest) -> None:
    mk1 = make_plan(replace(base, system="C2")).memory[0]
    assert (mk1.tiles, mk1.tile_capacity_bytes) == (1216, 262_144)


def test_evaluation_is_a_forward_pass_with_a_loss(base: PlanRequest) -> None:
    plan = make_plan(replace(base, training=False))
    assert plan.step is not None
    assert all(layer.backward_us == 0 for layer in plan.layers)
    assert plan.step.update_us == plan.all_reduce_us == 0
    names = [op.name for layer in plan.layers for op in layer.forward_ops]
    assert "loss and accuracy" in names
    assert "dropout" not in names
    assert plan.compile_s < make_plan(base).compile_s


def test_prediction_sends_results_back_instead(base: PlanRequest) -> None:
    evaluated = make_plan(replace(base, training=False)).step
    plan = make_plan(replace(base, training=False, label_values=0))
    assert plan.step is not None
    assert evaluated is not None
    names = [op.name for layer in plan.layers for op in layer.forward_ops]
    assert "loss and accuracy" not in names
    # Ten results take the place of ten labels; starting the copy takes 8 us.
    assert plan.step.infeed_us == pytest.approx(evaluated.infeed_us + 8)


def test_batch_norm_folds_into_the_convolution_before_it(resnet50: ModelSpec) -> None:
    plan = make_plan(PlanRequest(resnet50, 1, 10, training=False))
    norms = [layer for layer in plan.layers if layer.kind == "BatchNormalization"]
    assert all(layer.forward_us == 0 for layer in norms)


def test_pipelined_evaluation_runs_all_steps_at_once(base: PlanRequest) -> None:
    plan = make_plan(pipelined(base, training=False, steps_per_execution=12))
    (first, second) = plan.stages
    slowest = max(first.forward_us, second.forward_us)
    wanted = first.forward_us + 11 * slowest + second.forward_us + 13 * plan.copy_us
    assert plan.run_us == pytest.approx(wanted)
    assert plan.stages[0].fifo_depth == 0
    assert plan.schedule is not None
    assert plan.schedule.micro_batches == 12


def test_sequential_pays_for_each_transfer_once(base: PlanRequest) -> None:
    plan = make_plan(
        pipelined(base, pipeline=PipelineRequest(STAGES, ScheduleKind.SEQUENTIAL))
    )
    transfers = make_plan(pipelined(base)).copy_us
    per_batch = sum(stage.forward_us + stage.backward_us for stage in plan.stages)
    assert plan.run_us == pytest.approx(8 * (per_batch + transfers))


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize(
    ("schedule", "mapping"),
    [
        (ScheduleKind.GROUPED, ()),
        (ScheduleKind.GROUPED, (1, 0)),
        (ScheduleKind.GROUPED, (0, 0)),
        (ScheduleKind.INTERLEAVED, ()),
        (ScheduleKind.INTERLEAVED, (1, 0)),
        (ScheduleKind.SEQUENTIAL, ()),
        (ScheduleKind.SEQUENTIAL, (0, 0)),
    ],
)
def test_timeline_of_a_plan_takes_as_long_as_the_plan_says(
    base: PlanRequest,
    schedule: ScheduleKind,
    recompute: bool,
    mapping: tuple[int, ...],
) -> None:
    mode = Recomputation.OFF
    if recompute and schedule is ScheduleKind.SEQUENTIAL:
        mode = Recomputation.WITH_BACKPROPAGATE
    elif recompute:
        mode = Recomputation.THEN_BACKPROPAGATE
    plan = make_plan(
        pipelined(
            base,
            ipus=1 if mapping == (0, 0) else 2,
            pipeline=PipelineRequest(STAGES, schedule, mode, mapping),
            config={"allow_recompute": recompute},
        )
    )
    assert plan.ok, plan.problems
    assert plan.schedule is not None
    times = StageTimes(
        tuple(stage.forward_us for stage in plan.stages),
        tuple(stage.backward_us for stage in plan.stages),
        tuple(stage.recompute_us for stage in plan.stages),
        plan.copy_us,
    )
    timeline = build_timeline(plan.schedule, times)
    assert timeline.total_us == pytest.approx(plan.run_us)
    step = plan.step
    assert step is not None
    # Neither work nor copies, of the mean IPU; the first stage streams the samples.
    copied = len(plan.schedule.program_steps) * plan.copy_us
    assert step.waiting_us * 8 == pytest.approx(
        plan.run_us - copied - _busy_us(timeline), abs=1e-6
    )
    assert plan.waiting_fraction == pytest.approx(step.waiting_us / step.total_us)
    per_step = (plan.run_us + plan.update_us) / 8 + step.launch_us
    assert step.total_us == pytest.approx(per_step)


def _busy_us(timeline: Timeline) -> float:
    """Return the mean time that an IPU works in a pipeline run."""
    spans = [span for ipu in timeline.ipus for span in timeline.intervals(ipu)]
    return sum(span.end_us - span.start_us for span in spans) / len(timeline.ipus)


def test_skip_connections_are_copied_over_every_boundary(resnet50: ModelSpec) -> None:
    layers = resnet50.stage_layers
    names = [layer.name for layer in layers]
    first_add = next(at for at, layer in enumerate(layers) if layer.kind == "Add")
    stages = tuple(
        0 if at < 4 else 1 if at < first_add - 1 else 2 for at in range(len(names))
    )
    request = PlanRequest(
        resnet50,
        1,
        8 * 8,
        ipus=4,
        gradient_accumulation=8,
        steps_per_execution=8,
        pipeline=PipelineRequest(stages),
    )
    plan = make_plan(request)
    # At stage 1 the block's input waits while three convolutions run.
    block_input, main_branch = 56 * 56 * 64, 56 * 56 * 256
    labels = 4
    assert plan.layers[first_add - 2].crossing_bytes == 2 * 2 * main_branch + labels
    assert plan.layers[4].crossing_bytes == 2 * 2 * block_input + labels


def test_inputs_cross_but_no_gradient_of_them_comes_back(
    chain: Any, base: PlanRequest
) -> None:
    image = chain.add("Input", shape=[8, 8, 3])
    chain.add("Conv2D", filters=4, kernel_size=1)
    middle = chain.add("Conv2D", filters=4, kernel_size=1)
    chain.add("Concatenate", image, middle)
    chain.add("Conv2D", filters=4, kernel_size=1)
    pipeline = PipelineRequest((0, 0, 1, 1))
    request = PlanRequest(
        chain.model(),
        16,
        64,
        label_values=0,
        ipus=2,
        gradient_accumulation=4,
        steps_per_execution=4,
        pipeline=pipeline,
    )
    there, back = 16 * 4 * 64 * (3 + 4), 16 * 4 * 64 * 4
    wanted = 2 * 5 + (there + back) / 54e3
    assert make_plan(request).copy_us == pytest.approx(wanted)


@pytest.mark.parametrize("stages", [1, 2])
def test_it_does_not_matter_in_which_order_branches_are_listed(
    chain: Any, stages: int
) -> None:
    data = chain.add("Input", shape=(10,))
    wide = chain.add("Dense", data, units=20_000)
    left = chain.add("Dense", wide, units=10)
    also_wide = chain.add("Dense", data, units=20_000)
    right = chain.add("Dense", also_wide, units=10)
    both = chain.add("Add", left, right)
    chain.add("Dense", both, units=10)
    by_branch = chain.model()
    # Keras lists both wide layers first, so that both would be kept at once.
    chain.layers[2:4] = reversed(chain.layers[2:4])
    by_depth = chain.model()

    def planned(model: ModelSpec) -> Plan:
        stage_of = (0, 0, 0, 0, 1, 1)
        return make_plan(
            PlanRequest(
                model,
                batch_size=64,
                batches=8,
                steps_per_execution=8,
                training=False,
                ipus=stages,
                pipeline=PipelineRequest(stage_of) if stages == 2 else None,
            )
        )

    one, other = planned(by_branch), planned(by_depth)
    assert one.step == other.step
    assert one.memory == other.memory
    assert one.compile_s == other.compile_s
    assert [layer.name for layer in other.layers] == [
        layer.name for layer in by_depth.stage_layers
    ]


def test_a_default_that_is_written_down_is_the_default(base: PlanRequest) -> None:
    request = pipelined(base, ipus=4, pipeline=PipelineRequest((0, 0, 1, 1, 2, 3, 3)))
    assert request.pipeline is not None
    written = replace(request.pipeline, device_mapping=(0, 1, 2, 3))
    turned = replace(request.pipeline, device_mapping=(0, 1, 3, 2))
    assert replace(request, pipeline=written) == request
    assert make_plan(replace(request, pipeline=turned)).ok
    assert turned.device_mapping == (0, 1, 3, 2)


def test_unknown_optimizer_is_taken_for_the_dearest(base: PlanRequest) -> None:
    plan = make_plan(replace(base, optimizer="Lion"))
    (problem,) = plan.problems
    assert problem.severity is Severity.WARNING
    assert plan.ok
    assert plan.step == make_plan(replace(base, optimizer="adam")).step


def test_a_missing_hardware_file_is_a_problem(base: PlanRequest) -> None:
    plan = make_plan(replace(base, hardware_file="no/such/file.toml"))
    assert not plan.ok
    assert "no/such/file.toml" in str(plan.problems[0])


def check(plan: Plan) -> None:
    if plan.step is None:
        assert not plan.ok
    else:
        parts = plan.step
        assert parts.total_us > 0
        assert min(parts.waiting_us, parts.links_us, parts.infeed_us) >= 0
        assert len(plan.stages) >= 1


@settings(max_examples=150)
@given(data=st.data())
def test_any_request_gives_a_plan_or_problems(
    mnist_cnn: ModelSpec, data: st.DataObject
) -> None:
    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    pipeline = None
    if data.draw(st.booleans()):
        pipeline = PipelineRequest(
            tuple(data.draw(st.lists(st.integers(-1, 4), min_size=6, max_size=8))),
            data.draw(st.sampled_from(ScheduleKind)),
            data.draw(st.sampled_from(Recomputation)),
            tuple(data.draw(st.lists(st.integers(-1, 4), max_size=4))),
            data.draw(st.booleans()),
        )
    check(
        make_plan(
            PlanRequest(
                mnist_cnn,
                draw(-1, 4),
                draw(-1, 40),
                label_values=draw(0, 10),
                steps_per_execution=draw(-1, 40),
                gradient_accumulation=draw(-1, 12),
                optimizer=data.draw(st.sampled_from(["sgd", "Adam", "x"])),
                training=data.draw(st.booleans()),
                ipus=draw(-1, 9),
                system=data.draw(st.sampled_from(["M2000", "Pod16", "Nothing"])),
                pipeline=pipeline,
                config={"allow_recompute": data.draw(st.booleans())},
            )
        )
    )


def test_layers_that_differ_in_name_only_are_costed_once(
    chain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain.add("Input", shape=[16])
    for number in range(5):
        # A model that was read has the layer's name among its settings.
        chain.add("Dense", units=16, name=f"number_{number}")
    model, costed, dense = chain.model(), set(), LAYER_KINDS["Dense"]

    def operations(layer: Layer, training: bool) -> Sequence[Operation]:
        costed.add(layer.name)
        return dense.operations(layer, training)

    monkeypatch.setitem(LAYER_KINDS, "Dense", dense._replace(operations=operations))
    make_plan(PlanRequest(model, 4, 100))
    # The first hands no gradient on.
    assert len(costed) == 2
