"""Memory over the steps of a program, drawn and told."""

from __future__ import annotations

import pytest

from ipu_runtime.plan.memory.memory_walk import MemoryWalk
from ipu_runtime.plan.planner import walk_memory
from ipu_runtime.reports.document import FILLED, MUTED, Chart, Document
from ipu_runtime.reports.document_html import section_html
from ipu_runtime.reports.memory_sections import walk_parts, walk_section
from ipu_runtime.reports.plan_words import always_words, fullest_walk, peak_sentence
from workbench.experiment.preset_store import load_preset
from workbench.experiment.validation import validate
from workbench.planning.experiment_plan import plan_experiment
from workbench.views.drawings import LABELS, area_rows, pass_marks
from workbench.views.layout import TextStyle, document_text

Area = list[tuple[str, str]]


def walks(name: str) -> tuple[MemoryWalk, ...]:
    spec, _ = validate(load_preset(name).tables)
    assert spec is not None
    return walk_memory(plan_experiment(spec))


def drawn(walk: MemoryWalk, width: int, ascii_only: bool = False) -> list[Area]:
    """Return the rows of an area without their labels, and without its marks."""
    chart = walk_parts(walk)[0]
    assert isinstance(chart, Chart)
    rows = area_rows(chart, width, 10, ascii_only=ascii_only)
    assert all(len(label.text) == LABELS for label, *_ in rows[:-1])
    return [[(span.text, span.tone) for span in row[1:]] for row in rows[:-1]]


def marks_of(walk: MemoryWalk, width: int) -> str:
    chart = walk_parts(walk)[0]
    assert isinstance(chart, Chart)
    return pass_marks(chart.marks, len(walk.steps), width)


@pytest.mark.parametrize("name", ["mnist-ipu", "bert-large-pod16", "resnet50-pod16"])
@pytest.mark.parametrize("width", [7, 34, 86, 300])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_every_row_is_as_wide_as_asked(name: str, width: int, ascii_only: bool) -> None:
    walk = fullest_walk(walks(name))
    rows = drawn(walk, width, ascii_only)
    texts = ["".join(text for text, _ in row) for row in rows]
    assert [len(text) for text in texts] == [width] * 10
    assert not ascii_only or all(text.isascii() for text in texts)
    assert len(marks_of(walk, width)) <= width


def test_the_area_is_as_high_as_its_steps() -> None:
    (walk,) = walks("mnist-ipu")
    rows = drawn(walk, len(walk.steps))
    texts = ["".join(text for text, _ in row) for row in rows]
    most = max(walk.totals)
    always = [row for row in rows if row[0][1] == MUTED]
    share = walk.memory.always_live_bytes / most
    assert len(always) == pytest.approx(share * 10, abs=0.5)
    assert all(kind != MUTED for row in rows[: -len(always)] for _, kind in row)
    assert any(kind == FILLED for _, kind in rows[0])
    eighths = " ▁▂▃▄▅▆▇█"
    for at, total in enumerate(walk.totals):
        column = [text[at] for text in texts]
        height = sum(8 if sign == "░" else eighths.index(sign) for sign in column)
        # What is always live fills whole rows.
        expected = max(total / most * 80, 8 * len(always))
        assert height == pytest.approx(expected, abs=0.5)


def test_passes_stand_where_they_begin() -> None:
    (walk,) = walks("mnist-ipu")
    marks = marks_of(walk, 90)
    assert marks.index("|forward") == 0
    assert marks.index("|backward") == 90 * 7 // 15 == 42
    assert walk.steps[7].name == "backward"


def test_text_tells_the_peak_and_what_is_alive() -> None:
    found = walks("bert-large-pod16")
    document = Document("", (walk_section(found),))
    lines = document_text(document, TextStyle(80))
    assert all(len(line) <= 80 for line in lines)
    text = "\n".join(lines)
    walk = fullest_walk(found)
    assert f"IPU {walk.memory.ipu}, fullest of 4  modelled" in text
    assert f"{walk.alive[0].name}" in text
    assert "memory 90 % (fullest tile)" in text
    assert "|forward " in text
    assert "|forward 3" not in text


def test_what_is_always_live_is_told_in_full() -> None:
    (walk,) = walks("mnist-ipu")
    assert "code" in always_words(walk)
    assert "stash" not in always_words(walk)
    assert "backward of conv2d_1" in peak_sentence(walk)


def test_the_page_has_the_same_steps() -> None:
    spec, _ = validate(load_preset("mnist-ipu").tables)
    assert spec is not None
    plan = plan_experiment(spec)
    (walk,) = walk_memory(plan)
    page = str(section_html(walk_section((walk,))))
    assert peak_sentence(walk) in page
    assert 'class="area f0"' in page
    for step in walk.steps:
        assert f"{step.name} {step.layer}".strip() in page
