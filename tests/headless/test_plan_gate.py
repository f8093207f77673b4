"""`plan --fail-if` and `--compare`; and the gate that the shipped presets must pass."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workbench.experiment.preset_store import list_presets
from workbench.headless.main import main


def _no_app(*, theme: str | None, ascii_only: bool) -> int:
    raise AssertionError("a command opens no app")


def _plan(*arguments: str) -> int:
    return main(("plan", *arguments), {}, _no_app)


@pytest.mark.parametrize(
    "preset", [item.name for item in list_presets() if item.name != "mnist-cpu"]
)
def test_shipped_presets_keep_their_gate(preset: str) -> None:
    gate = ("--fail-if", "memory > 95 %", "--fail-if", "samples_per_second < 500")
    assert _plan(preset, *gate) == 0


@pytest.mark.parametrize(
    "option",
    [
        ("--fail-if", "memory > 5 %"),
        ("--fail-if", "replicas > 1"),
        ("--compare", "mnist-ipu"),
        ("--band",),
        ("--schedules",),
    ],
)
def test_a_cpu_has_no_figures_of_a_device_to_ask_for(
    option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _plan("mnist-cpu", *option) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"{option[0]}: needs modelled figures; ")
    assert "execution.api = cpu" in printed.err


@pytest.mark.parametrize(
    ("figure", "other", "reason"),
    [
        ("ipu_us_per_batch", "mnist-dense", "batches differ in size"),
        ("ipu_step_us", "mnist-ipu-replicated", "a step of other replicas"),
    ],
)
def test_figures_of_different_things_have_no_change(
    figure: str, other: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _plan("mnist-ipu-faster", "--compare", other) == 0
    rows = {line.split()[0]: line.split() for line in _table(capsys.readouterr().out)}
    assert rows[figure][-1] == "-"
    assert rows["samples_per_second"][-1] == "%"
    condition = ("--fail-if", f"{figure} change > 5 %")
    assert _plan("mnist-ipu-faster", "--compare", other, *condition) == 2
    assert reason in capsys.readouterr().err


def _table(text: str) -> list[str]:
    return [line for line in text.partition("this plan")[2].splitlines()[1:] if line]


def test_no_plan_is_held_against_that_of_a_cpu(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _plan("mnist-ipu", "--compare", "mnist-cpu") == 2
    assert "mnist-cpu has no figures; execution.api = cpu" in capsys.readouterr().err


def test_a_broken_condition_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gate = ("--fail-if", "memory > 5%", "--fail-if", "samples_per_second < 1,000")
    assert _plan("mnist-ipu", *gate) == 4
    assert capsys.readouterr().err == (
        "memory is 12 % (modelled), which the gate refuses: memory > 5%\n"
    )


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("ipu_step_us > 3.1 ms", 0),
        ("ipu_step_us > 2.9 ms", 4),
        ("ipu_step_us >= 2900", 4),
        ("sum_over_tiles > 100 MiB", 4),
        ("sum_over_tiles > 1 GiB", 0),
        ("replicas >= 1", 4),
    ],
)
def test_units_are_converted(condition: str, code: int) -> None:
    assert _plan("mnist-ipu", "--fail-if", condition) == code


def test_changes_are_those_against_another_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _plan("mnist-ipu", "--json")
    written = tmp_path / "before.json"
    written.write_text(capsys.readouterr().out)
    worse = ("--set", "data.batch_size=16")
    slower = ("--fail-if", "samples_per_second change < -5 %")
    for other in ("mnist-ipu", str(written)):
        assert _plan("mnist-ipu", *worse, "--compare", other, *slower) == 4
        printed = capsys.readouterr()
        assert "samples_per_second change is -" in printed.err
        assert "this plan" in printed.out
        assert _plan("mnist-ipu", "--compare", other, *slower) == 0
        capsys.readouterr()


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        ("memory > 90", "'memory > 90': the unit of memory is one of: %"),
        ("memori > 90 %", "did you mean memory?"),
        ("memory", "is no condition"),
        ("memory change > 1 %", "add --compare RUN|FILE"),
    ],
)
def test_conditions_that_say_nothing_are_refused(
    condition: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _plan("mnist-ipu", "--fail-if", condition) == 2
    assert answer in capsys.readouterr().err


def test_a_file_without_a_plan_is_no_other_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "before.json"
    written.write_text('{"event": "plan", "memory": []}')
    assert _plan("mnist-ipu", "--compare", str(written)) == 2
    assert "holds no plan with figures" in capsys.readouterr().err


def test_a_pipe_to_compare_with_is_refused_and_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert _plan("mnist-ipu", "--compare", str(tmp_path / "pipe.json")) == 2
    assert "is not a regular file" in capsys.readouterr().err
