"""Memory over the steps of a program, drawn and told."""

from __future__ import annotations

import pytest

from ipu_runtime.plan.memory.memory_walk import MemoryWalk
from ipu_runtime.plan.planner import walk_memory
from ipu_runtime.reports.memory_words import always_words, fullest_walk, peak_sentence
from ipu_runtime.reports.plan_parts import plan_parts
from workbench.experiment.preset_store import load_preset
from workbench.experiment.validation import validate
from workbench.planning.experiment_plan import plan_experiment
from workbench.views.layout import TextStyle
from workbench.views.memory_chart import (
    ALWAYS,
    REST,
    area_rows,
    pass_marks,
    walk_lines,
)


def walks(name: str) -> tuple[MemoryWalk, ...]:
    spec, _ = validate(load_preset(name).tables)
    assert spec is not None
    return walk_memory(plan_experiment(spec))


@pytest.mark.parametrize("name", ["mnist-ipu", "bert-large-pod16", "resnet50-pod16"])
@pytest.mark.parametrize("width", [7, 34, 86, 300])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_every_row_is_as_wide_as_asked(name: str, width: int, ascii_only: bool) -> None:
    walk = fullest_walk(walks(name))
    rows = area_rows(walk, width, 10, ascii_only=ascii_only)
    texts = ["".join(text for text, _ in row) for row in rows]
    assert [len(text) for text in texts] == [width] * 10
    assert not ascii_only or all(text.isascii() for text in texts)
    assert len(pass_marks(walk.steps, width)) <= width


def test_the_area_is_as_high_as_its_steps() -> None:
    (walk,) = walks("mnist-ipu")
    rows = area_rows(walk, len(walk.steps), 10)
    texts = ["".join(text for text, _ in row) for row in rows]
    most = max(walk.totals)
    always = [row for row in rows if row[0][1] == ALWAYS]
    share = walk.memory.always_live_bytes / most
    assert len(always) == pytest.approx(share * 10, abs=0.5)
    assert all(kind != ALWAYS for row in rows[: -len(always)] for _, kind in row)
    assert any(kind == REST for _, kind in rows[0])
    eighths = " ▁▂▃▄▅▆▇█"
    for at, total in enumerate(walk.totals):
        column = [text[at] for text in texts]
        height = sum(8 if sign == "░" else eighths.index(sign) for sign in column)
        # What is always live fills whole rows.
        expected = max(total / most * 80, 8 * len(always))
        assert height == pytest.approx(expected, abs=0.5)


def test_passes_stand_where_they_begin() -> None:
    (walk,) = walks("mnist-ipu")
    marks = pass_marks(walk.steps, 90)
    assert marks.index("|forward") == 0
    assert marks.index("|backward") == 90 * 7 // 15 == 42
    assert walk.steps[7].name == "backward"


def test_text_tells_the_peak_and_what_is_alive() -> None:
    found = walks("bert-large-pod16")
    lines = walk_lines(found, TextStyle(80))
    assert all(len(line) <= 80 for line in lines)
    text = "\n".join(lines)
    walk = fullest_walk(found)
    assert f"IPU {walk.memory.ipu}, fullest of 4 (" in text
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
    page = "".join(str(part) for part in plan_parts(plan))
    assert peak_sentence(walk) in page
    assert 'class="area f0"' in page
    for step in walk.steps:
        assert f"{step.name} {step.layer}".strip() in page
