"""The walk through a program's memory agrees with the figure, at every moment."""

from __future__ import annotations

import pytest

from ipu_runtime.plan.hardware import load_table
from ipu_runtime.plan.memory.liveness import walked_stages
from ipu_runtime.plan.memory.memory_walk import MemoryWalk
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import replica_of, walk_memory
from workbench.experiment.overrides import apply_overrides
from workbench.experiment.preset_store import list_presets, load_preset
from workbench.experiment.validation import validate
from workbench.planning.experiment_plan import plan_experiment, plan_inference

PRESETS = [preset.name for preset in list_presets()]
CHANGES = {
    "recomputed": ("resnet50-pod16", ["ipu.allow_recompute=true"]),
    "two stages on an IPU": (
        "mnist-ipu-pipelined",
        ["pipeline.schedule=Sequential", "pipeline.device_mapping=[0, 0]"],
    ),
    "stages of segments": (
        "bert-large-pod16",
        ["pipeline.recomputation=RecomputeAndBackpropagateInterleaved"],
    ),
    "tiles for streams": ("mnist-ipu", ["ipu.io_tiles.num_io_tiles=64"]),
    "merged sums": (
        "resnet50-pod16",
        ["ipu.optimizations.maximum_cross_replica_sum_buffer_size=1000000000"],
    ),
}


def planned(name: str, changes: list[str]) -> Plan:
    tables, problems = apply_overrides(load_preset(name).tables, changes)
    assert not problems
    spec, problems = validate(tables)
    assert spec is not None, problems
    return plan_experiment(spec, with_remedies=False)


def agrees(walk: MemoryWalk) -> None:
    memory = walk.memory
    assert max(walk.totals) == walk.totals[walk.peak] == memory.used_bytes
    parts = memory.by_category
    peak = walk.steps[walk.peak]
    assert (peak.tensor_bytes, peak.temporary_bytes) == (
        parts["activations"],
        parts["temporaries"],
    )
    assert sum(item.size for item in walk.alive) == pytest.approx(peak.bytes, abs=2)
    sizes = [item.size for item in walk.alive]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("name", PRESETS)
def test_the_fullest_step_is_the_figure(name: str) -> None:
    plan = planned(name, [])
    walks = walk_memory(plan)
    assert [walk.memory for walk in walks] == list(plan.memory)
    for walk in walks:
        agrees(walk)


@pytest.mark.parametrize("name", CHANGES)
def test_the_fullest_step_is_the_figure_of_changed_presets(name: str) -> None:
    for walk in walk_memory(planned(*CHANGES[name])):
        agrees(walk)


@pytest.mark.parametrize("name", ["mnist-ipu", "resnet50-pod16", "bert-large-pod16"])
def test_what_is_alive_adds_up_at_every_moment(name: str) -> None:
    plan = planned(name, ["ipu.allow_recompute=true"] * (name == "resnet50-pod16"))
    table = load_table()
    system = table.system(plan.request.system)
    assert system is not None
    request = replica_of(plan.request, table, system)[0].memory_request()
    stages = walked_stages(request.work, request.stage_of_layer, request.checkpointed)
    for stage in stages[:2]:
        assert stage is not None
        for found in stage.moments():
            for at in range(len(stage.layers)):
                if not found.total[at]:
                    continue
                sizes = [item.size for item in stage.alive(found.name, at)]
                assert sum(sizes) == pytest.approx(found.total[at])


def test_a_step_goes_forward_and_back() -> None:
    (walk,) = walk_memory(planned("mnist-ipu", []))
    layers = [step.layer for step in walk.steps if step.name == "forward"]
    assert [step.layer for step in walk.steps if step.name == "backward"] == [
        *reversed(layers)
    ]
    assert walk.steps[len(layers)].name == "backward"


def test_a_segment_is_made_again_right_before_its_backward_pass() -> None:
    plan = planned("resnet50-pod16", ["ipu.allow_recompute=true"])
    (walk,) = walk_memory(plan)
    names = [step.name for step in walk.steps]
    # The last segment goes straight on.
    assert names[names.index("backward") - 1] == "forward"
    again = names.index("recomputation")
    end = next(at for at in range(again, len(names)) if names[at] == "backward")
    assert walk.steps[end].layer == walk.steps[end - 1].layer
    assert names[-1] == "update"


def test_predictions_have_no_way_back() -> None:
    spec, _ = validate(load_preset("mnist-ipu").tables)
    assert spec is not None
    (walk,) = walk_memory(plan_inference(spec))
    agrees(walk)
    assert {step.name for step in walk.steps} == {"forward"}


def test_what_cannot_be_planned_has_no_walk() -> None:
    plan = planned("mnist-ipu", [])
    assert walk_memory(Plan(plan.request, ())) == ()
