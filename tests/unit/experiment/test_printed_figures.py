"""A document's figures stand beside ours only where the run is the document's."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.experiment.experiment_spec import Figure
from workbench.experiment.overrides import apply_overrides
from workbench.experiment.preset_store import load_preset, save_preset
from workbench.experiment.printed_figures import (
    PrintedFigures,
    figures_in,
    printed_figures,
)
from workbench.experiment.tables import spec_to_tables
from workbench.experiment.toml_text import to_toml
from workbench.experiment.validation import validate
from workbench.headless.run_display import TextDisplay
from workbench.runs.events import EpochEnded, RunStarted


def printed(*changes: str, preset: str = "mnist-ipu-faster") -> PrintedFigures:
    tables, problems = apply_overrides(load_preset(preset).tables, changes)
    assert not problems
    return printed_figures(tables, preset)


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("train.epochs=1", "experiment.seed=7", "data.test_samples=64"),
        ("train.evaluate=false", "data.batch_size=64"),
    ],
)
def test_the_documents_run_is_compared(changes: tuple[str, ...]) -> None:
    found = printed(*changes)

    assert found.why_not == ""
    assert found.of(1, "accuracy") == 0.6783
    assert found.of(2, "step_us") == 224
    assert found.of(7, "accuracy") is None


@pytest.mark.parametrize(
    "change",
    [
        "data.batch_size=32",
        "train.learning_rate=0.1",
        "data.train_samples=6400",
        "ipu.auto_select_ipus=2",
        "model.layers[1].filters=8",
        "execution.metric_reduction=mean",
    ],
)
def test_nothing_learned_is_compared_when_a_field_that_matters_differs(
    change: str,
) -> None:
    found = printed(change)

    assert found.of(1, "accuracy") is None
    field = change.partition("=")[0] if "layers" not in change else "model"
    assert found.why_not == f"not the document's run: {field} differs"


@pytest.mark.parametrize(
    "change", ["execution.steps_per_execution=1", "execution.system=Bow-2000"]
)
def test_what_only_takes_longer_is_still_compared_by_what_it_learns(
    change: str,
) -> None:
    found = printed(change)

    assert found.of(1, "accuracy") == 0.6783
    assert found.of(2, "step_us") is None
    field = change.partition("=")[0]
    assert found.why_not == f"times are not the document's: {field} differs"


def test_several_fields_are_named_and_many_are_counted() -> None:
    two = ("data.batch_size=32", "train.learning_rate=0.1")
    assert printed(*two).why_not == (
        "not the document's run: data.batch_size, train.learning_rate differ"
    )
    more = ("train.optimizer=adam", "data.shuffle=false")
    assert printed(*two, *more).why_not.endswith("and 1 more differ")


def test_a_copy_under_another_name_is_no_document_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path))
    tables, _ = apply_overrides(load_preset("mnist-ipu").tables, ["data.batch_size=8"])
    save_preset("mine", tables)

    found = printed(preset="mine")

    assert found.why_not == "not the document's run: data.batch_size differs"


def test_figures_of_a_file_of_ones_own_are_those_of_its_fields(tmp_path: Path) -> None:
    tables, _ = apply_overrides(load_preset("mnist-ipu").tables, [])
    figures = [{"epoch": 1, "accuracy": 0.25}]
    own = {**tables, "experiment": {**tables["experiment"], "figures": figures}}
    file = tmp_path / "own.toml"
    file.write_text(to_toml(own))
    changed, _ = apply_overrides(own, ["train.optimizer=adam"])

    assert printed_figures(own, str(file)).of(1, "accuracy") == 0.25
    assert printed_figures(changed, str(file)).of(1, "accuracy") is None


def test_what_a_run_kept_is_compared_as_its_file_was() -> None:
    spec, _ = validate(load_preset("mnist-cpu").tables)
    assert spec is not None

    assert printed_figures(spec_to_tables(spec), "gone.toml").why_not == ""


def test_odd_tables_have_no_figures() -> None:
    assert figures_in({"experiment": {"figures": 3}}) == ()
    odd = {"experiment": {"figures": [{"epoch": 1, "loss": "x", "accuracy": 0.5}]}}
    assert figures_in(odd) == (Figure(1, accuracy=0.5),)
    assert printed_figures({}) == PrintedFigures()


def test_the_command_says_why_it_does_not_compare(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tables = load_preset("mnist-ipu").tables
    tables, _ = apply_overrides(tables, ["data.train_samples=640"])
    spec, _ = validate(tables)
    assert spec is not None
    display = TextDisplay(spec)

    display.show(RunStarted("r1", "mnist-ipu", spec_to_tables(spec)))
    display.show(EpochEnded(1, 2.3, 0.1, 1.0, 3000.0, 0.5))

    said = capsys.readouterr()
    assert "not the document's run: data.train_samples differs" in said.err
    assert "document prints" not in said.out
