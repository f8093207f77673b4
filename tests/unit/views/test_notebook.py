"""What a notebook shows of plans, runs and comparisons."""

from __future__ import annotations

from html.parser import HTMLParser

from ipu_runtime.plan.quantities import microseconds
from ipu_runtime.reports.document import Column as Col
from ipu_runtime.reports.document import Document, Note, Row, Section, Span, Table
from ipu_runtime.reports.document_html import notebook_html
from workbench.comparing.compare import compare_runs
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.tables import spec_to_tables
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.events import EpochEnded, RunStatus
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import StoredRun, open_run

HOSTILE = "</style><script>alert(1)</script>"


class _Frame(HTMLParser):
    """Collects the page that stands in a frame, and what stands beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.page = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.page += dict(attrs).get("srcdoc") or ""


def _page(shown: str) -> str:
    frame = _Frame()
    frame.feed(shown)
    assert frame.tags == ["iframe"]
    return frame.page


def _run(name: str, *changes: str, loss: float = 0.5) -> StoredRun:
    loaded = load_experiment(name, changes)
    assert loaded.spec is not None
    record = RunRecord.create(spec_to_tables(loaded.spec), loaded.preset.name)
    record.append(EpochEnded(1, loss, 0.25, 3.0, 222.0, 1.5))
    record.finish(RunStatus.FINISHED)
    return open_run(record.run_id)


def test_a_plan_shows_its_figures() -> None:
    spec = load_experiment("mnist-ipu-pipelined").spec
    assert spec is not None
    plan = plan_experiment(spec)
    page = _page(plan._repr_html_())
    assert microseconds(plan.ipu_us_per_batch) in page
    assert page.count("<title>IPU 0, stage 0: forward of micro-batch") == 8


def test_runs_and_their_comparison_show_what_came_of_them() -> None:
    first, second = _run("mnist-ipu"), _run("mnist-ipu", "data.batch_size=32", loss=0.4)
    assert "0.5000" in _page(first._repr_html_())
    page = _page(compare_runs([first, second])._repr_html_())
    assert "data.batch_size" in page
    assert "0.4 -20 % *" in page


def test_nothing_in_a_document_gets_out_of_it() -> None:
    spans = (Span(HOSTILE), Span(HOSTILE, "bad"))
    row = Row((HOSTILE, spans), below=(Span(HOSTILE),))
    table = Table((Col(HOSTILE), Col(HOSTILE)), (row,), HOSTILE)
    section = Section(HOSTILE, (Note(HOSTILE), table), HOSTILE)
    page = _page(notebook_html(Document(HOSTILE, (section,), HOSTILE)))
    assert "<script" not in page
    assert page.count("alert(1)") == 13
