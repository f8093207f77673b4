"""Plans with other hardware, and bands that are made of them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from ipu_runtime.plan.band import FIGURES, SOURCES, plan_band
from ipu_runtime.plan.changed_hardware import HardwareChange, changed, next_system
from ipu_runtime.plan.hardware import load_table
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.request import PlanRequest

STEP = FIGURES["ipu_step_us"]


@pytest.fixture
def request_of_two(mnist_cnn: ModelSpec) -> PlanRequest:
    return PlanRequest(
        mnist_cnn, 64, 936, label_values=10, steps_per_execution=468, ipus=2
    )


def test_a_change_is_what_a_hardware_file_says(
    request_of_two: PlanRequest, tmp_path: Path
) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(
        "[constants.pair_gb_s]\nvalue = 108.0\n[ipus.gc200]\nhost_gb_s = 11.0\n"
        "[code.conv]\nstate = 400_000\n"
    )
    told = make_plan(replace(request_of_two, hardware_file=str(path)))
    change = HardwareChange({"pair_gb_s": 2.0}, {"host_gb_s": 2.0})
    table = changed(load_table(), change)
    plan = make_plan(request_of_two, table=table)
    assert plan.step == told.step
    assert plan.step != make_plan(request_of_two).step
    assert load_table().values["pair_gb_s"] == 54.0
    assert table.systems["Pod4"].ipu.host_gb_s == 11.0


def test_code_of_all_classes_grows_together() -> None:
    table = changed(load_table(), HardwareChange(code=2.0))
    for name, size in load_table().code.items():
        assert table.code[name] == tuple(2 * value for value in size)


@pytest.mark.parametrize(
    ("system", "following"),
    [("Pod16", "Bow-Pod16"), ("M2000", "Bow-2000"), ("Bow-Pod64", None)],
)
def test_the_next_system_has_the_same_size(system: str, following: str | None) -> None:
    table = load_table()
    found = next_system(table, table.systems[system])
    assert (found.name if found else None) == following


def test_a_source_moves_its_constants_by_the_error_of_their_confidence(
    request_of_two: PlanRequest, tmp_path: Path
) -> None:
    path = tmp_path / "slow.toml"
    path.write_text(
        "[constants.sigma]\nvalue = 1440.0\n[constants.loop_cycles]\nvalue = 1890.0\n"
    )
    told = make_plan(replace(request_of_two, hardware_file=str(path)))
    band = plan_band(make_plan(request_of_two))
    assert band is not None
    assert band.slower["sync"].ipu_step_us == pytest.approx(told.ipu_step_us)
    assert band.faster["sync"].ipu_step_us < band.plan.ipu_step_us


def test_a_slow_host_has_small_rates(request_of_two: PlanRequest) -> None:
    band = plan_band(make_plan(request_of_two))
    assert band is not None
    step = band.slower["host"].step
    assert step is not None
    # 203,264 bytes; 8 us are L, the rate of 5.5 GB/s is M.
    assert step.infeed_us == pytest.approx(8 * 1.4 + 203_264 / (5.5e3 / 1.2))


def test_sources_are_combined_by_the_root_of_squares(
    request_of_two: PlanRequest,
) -> None:
    plan = make_plan(request_of_two)
    band = plan_band(plan)
    assert band is not None
    step = plan.ipu_step_us
    slower = [math.log(band.slower[name].ipu_step_us / step) for name in SOURCES]
    faster = [math.log(step / band.faster[name].ipu_step_us) for name in SOURCES]
    assert min(slower + faster) >= 0
    limits = band.of(STEP, 1.0)
    assert limits.high == pytest.approx(step * math.exp(math.hypot(*slower)))
    assert limits.low == pytest.approx(step / math.exp(math.hypot(*faster)))
    assert limits.holds(step)


def test_a_throughput_has_the_band_of_the_time_it_takes(
    request_of_two: PlanRequest,
) -> None:
    band = plan_band(make_plan(request_of_two))
    assert band is not None
    time, throughput = band.of(STEP), band.of(FIGURES["samples_per_second"])
    # Two replicas take a batch of 64 each in a step.
    assert throughput.low == pytest.approx(2 * 64e6 / time.high)
    assert throughput.high == pytest.approx(2 * 64e6 / time.low)


def test_measured_times_widen_the_band_of_times_alone(
    request_of_two: PlanRequest,
) -> None:
    band = plan_band(make_plan(request_of_two))
    assert band is not None
    assert band.width > 1
    stated, memory = band.of(STEP, 1.0), FIGURES["memory_fraction"]
    assert band.of(STEP).low < stated.low < stated.high < band.of(STEP).high
    assert band.of(memory) == band.of(memory, 1.0)
    assert band.coverage_of(STEP) == 0.9
    assert band.coverage_of(memory) is None


@pytest.mark.parametrize("width", [0.3, 2.5])
def test_a_band_reaches_what_its_width_is_asked_for(
    request_of_two: PlanRequest, width: float
) -> None:
    band = plan_band(make_plan(request_of_two))
    assert band is not None
    limits = band.of(STEP, width)
    assert band.width_for(STEP, limits.low) == pytest.approx(width)
    assert band.width_for(STEP, limits.high) == pytest.approx(width)


def test_errors_of_any_size_are_a_band(
    request_of_two: PlanRequest, tmp_path: Path
) -> None:
    path = tmp_path / "unsure.toml"
    path.write_text("[constants.band_width]\nvalue = 1e15\n[errors.M]\nshare = 1e9\n")
    band = plan_band(make_plan(replace(request_of_two, hardware_file=str(path))))
    assert band is not None
    limits = band.of(STEP)
    assert 0 < limits.low < limits.high < math.inf


def test_time_and_memory_have_sources_of_their_own(request_of_two: PlanRequest) -> None:
    band = plan_band(make_plan(request_of_two))
    assert band is not None
    timed = {"compute", "exchange", "sync", "host", "links"}
    assert band.shares(STEP).keys() == timed
    assert band.shares(FIGURES["memory_fraction"]).keys() == {"code", "memory"}


def test_every_constant_of_a_step_is_off_by_something() -> None:
    table = load_table()
    without = {name for name, item in table.constants.items() if not item.group}
    assert {item.group for item in table.constants.values()} - {""} == SOURCES.keys()
    assert not [name for name in without if name.endswith(("_us", "_gb_s", "_scale"))]


def test_what_cannot_be_planned_has_no_band(request_of_two: PlanRequest) -> None:
    assert plan_band(make_plan(replace(request_of_two, system="Pod7"))) is None
