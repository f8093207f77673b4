"""A CPU has no figures of a device: printed and measured times stand there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ipu_runtime.plan.plan_json import plan_to_json
from ipu_runtime.reports.document import Document
from ipu_runtime.reports.plan_document import plan_document
from workbench.comparing.compare import compare_runs
from workbench.comparing.explaining import explain
from workbench.editing.consequences import consequence
from workbench.editing.draft import Draft
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.preset_store import load_preset
from workbench.experiment.tables import spec_to_tables
from workbench.planning.experiment_plan import plan_experiment, plan_inference
from workbench.runs.cpu_figures import cpu_json
from workbench.runs.events import EpochEnded, RunStatus
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import StoredRun, open_run
from workbench.runs.run_summary import noted
from workbench.sweeps.sweep_grid import Point
from workbench.sweeps.sweep_point import plan_point
from workbench.views.cpu import cpu_document
from workbench.views.layout import TextStyle, document_text


def _text(document: Document) -> str:
    return "\n".join(document_text(document, TextStyle()))


def _spec(name: str, *changes: str) -> ExperimentSpec:
    spec = load_experiment(name, changes).spec
    assert spec is not None
    return spec


def _run(name: str, *changes: str, modelled: float = 0.0) -> StoredRun:
    """Return the record of a run of which an epoch took 8 ms a step."""
    spec = _spec(name, *changes)
    record = RunRecord.create(spec_to_tables(spec), name)
    ended = EpochEnded(1, 0.5, 0.8, 8.0, modelled, 1.0)
    ended = replace(ended, batch_size=spec.data.batch_size)
    record.append(ended)
    record.finish(RunStatus.FINISHED, "", noted(ended))
    return open_run(record.run_id)


@pytest.mark.parametrize("planner", [plan_experiment, plan_inference])
def test_no_device_has_figures_of_it(planner: object) -> None:
    plan = planner(_spec("mnist-cpu"))  # type: ignore[operator]
    content = plan_to_json(plan)
    assert plan.ok
    assert not content["modelled"]
    numbers = {
        key: value
        for key, value in content.items()
        if isinstance(value, float) and value
    }
    assert not numbers
    assert (plan.memory, plan.stages, plan.layers, plan.step) == ((), (), (), None)
    assert "execution.api = cpu" in content["not_modelled"]
    assert " us" not in str(plan_document(plan, "").sections)


def test_the_documents_and_the_measured_time_stand_there_instead() -> None:
    spec = _spec("mnist-cpu")
    tables = spec_to_tables(spec)
    plan = plan_experiment(spec)

    before = _text(cpu_document(plan, "title", tables, "mnist-cpu"))
    _run("mnist-cpu", "train.epochs=1")
    _run("mnist-cpu", "data.batch_size=8")
    after = _text(cpu_document(plan, "title", tables, "mnist-cpu"))

    assert "document  10.0 ms  per batch" in before
    assert "no run with these settings" in before
    assert "M2000" not in before
    # Of the run that took as long; by hand: 64 samples in 8 ms.
    assert "measured  8.00 ms  per batch, 8,000 samples/s, run " in after
    assert cpu_json(tables, "mnist-cpu") == {
        "document_us_per_batch": 10_000,
        "host_ms_per_batch": 8.0,
        "host_samples_per_second": 8000.0,
    }


def test_what_compares_says_why_it_cannot() -> None:
    on_cpu, on_ipu = _run("mnist-cpu"), _run("mnist-ipu", modelled=3000.0)

    explained = explain(on_cpu, on_ipu)
    rows = {row.key: row for row in compare_runs([on_cpu, on_ipu]).metrics}

    assert not explained.steps
    assert "ran on the CPU, of which nothing is modelled" in explained.problem
    assert rows["ipu_us_per_batch"].values == (None, 3000.0)
    assert rows["ipu_us_per_batch"].best_index is None
    assert rows["host_ms_per_batch"].values == (8.0, 8.0)


def test_points_and_choices_on_the_cpu_say_why_they_have_no_figures() -> None:
    point = plan_point(load_preset("mnist-cpu").tables, Point(0, {}))
    assert not point.metrics
    assert "execution.api = cpu" in point.problem
    draft = Draft(load_preset("mnist-cpu"))
    said = consequence(draft.tables, draft.plan, "data.batch_size", "32")
    assert said.startswith("no modelled figures: ")
