"""What decides about a plan, and what other hardware would change of it."""

from __future__ import annotations

import pytest

from ipu_runtime.plan.plan import Plan
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.preset_store import list_presets
from workbench.optimizing.goal import Aim, Goal
from workbench.optimizing.other_hardware import (
    Different,
    decides,
    other_hardware,
)
from workbench.planning.experiment_plan import plan_experiment

_AIM = Aim(Goal.THROUGHPUT, 1)


def _planned(name: str, *changes: str) -> Plan:
    spec = load_experiment(name, changes).spec
    assert spec is not None
    return plan_experiment(spec, with_remedies=False)


def _rows(plan: Plan) -> dict[str, Different]:
    return {item.part: item for item in other_hardware(plan, _AIM) if item.part}


@pytest.mark.parametrize(
    "name", [item.name for item in list_presets() if item.name != "mnist-cpu"]
)
def test_what_decides_moves_the_figure_most(name: str) -> None:
    plan = _planned(name)
    rows = _rows(plan)
    most = max(rows.values(), key=lambda item: item.change)
    assert most.change > 0.05
    assert decides(plan, tuple(rows.values())).startswith(f"What decides: {most.part};")


@pytest.mark.parametrize("name", ["mnist-ipu", "mnist-ipu-faster", "resnet50-pod16"])
def test_half_of_a_part_saves_half_of_its_time(name: str) -> None:
    plan = _planned(name, "ipu.auto_select_ipus=1")
    step = plan.step
    assert step is not None
    times = {
        "compute": step.compute_us,
        "exchange and sync": step.exchange_us + step.sync_us,
        "links": step.links_us,
        "feed": step.infeed_us,
        "launch": step.launch_us,
    }
    for part, row in _rows(plan).items():
        saved = plan.ipu_us_per_batch - plan.ipu_us_per_batch / (1 + row.change)
        # The weight update is made of arithmetic, exchange and sync too.
        most = times[part] + step.update_us * (part in ("compute", "exchange and sync"))
        assert times[part] / 2 <= saved + 1e-6
        assert saved <= most / 2 + 1e-6


def test_what_others_hide_decides_if_nothing_else_helps() -> None:
    # As fast as the host can send: arithmetic takes most of a step, beside the feed.
    plan = _planned(
        "mnist-ipu-faster",
        "ipu.io_tiles.num_io_tiles=128",
        "ipu.io_tiles.place_ops_on_io_tiles=true",
        "ipu.auto_select_ipus=4",
        "data.batch_size=512",
    )
    step, rows = plan.step, _rows(plan)
    assert step is not None
    assert step.compute_us > step.infeed_us
    assert abs(rows["compute"].change) < 0.005
    text = decides(plan, tuple(rows.values()))
    assert text.startswith("What decides: feed; in half the time ")
