"""Problems are one list, in which what decides stands first."""

from __future__ import annotations

import pytest

from ipu_runtime.plan.problem import Problem, Severity, deciding_first
from workbench.editing.draft import Draft
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.preset_store import load_preset
from workbench.headless.main import main
from workbench.planning.experiment_plan import plan_experiment


def test_errors_lead_and_warnings_end_in_the_order_they_were_found() -> None:
    error, full, warning = (
        Problem("a", item.value, severity=item) for item in Severity
    )
    later = Problem("b", "later", suggestion=[])

    ordered = deciding_first([warning, full, error, later, warning])

    assert ordered == (error, later, full, warning)


@pytest.mark.parametrize("samples", ["100", "0"])
def test_ipus_that_a_system_has_not_decide_before_batches(samples: str) -> None:
    changes = [f"data.train_samples={samples}", "ipu.auto_select_ipus=1024"]
    loaded = load_experiment("mnist-ipu", changes)
    assert loaded.spec is not None, loaded.problems

    first, *others = plan_experiment(loaded.spec).problems

    assert str(first).startswith("ipu.auto_select_ipus: M2000 has 4 IPUs, not 1024")
    assert all(item.where != "execution.instances" for item in others)


def test_the_app_lists_what_does_not_fit_before_what_is_only_odd() -> None:
    draft = Draft(load_preset("mnist-ipu"))
    draft.set({"execution.model_dir": "/tmp/x", "data.batch_size": 8192})

    severities = [item.severity for item in draft.problems]

    assert severities == [Severity.NO_FIT, Severity.WARNING]


def _no_app(*, theme: str | None, ascii_only: bool) -> int:
    raise AssertionError("a command opens no app")


def test_the_command_shows_all_of_them_in_one_list(
    capsys: pytest.CaptureFixture[str],
) -> None:
    changes = ("execution.model_dir=/tmp/x", "data.batch_size=8192")
    command = ["plan", "mnist-ipu", *(f"--set={change}" for change in changes)]

    code = main(command, {}, _no_app)

    shown = capsys.readouterr()
    _, _, problems = shown.out.partition("\nProblems\n")
    # What goes on from the line before is further in.
    firsts = [line for line in problems.splitlines() if not line.startswith("   ")]
    marks = [line.split(":")[0].strip() for line in firsts]
    assert marks == ["does not fit", "warning"]
    assert shown.err == ""
    assert code == 3
