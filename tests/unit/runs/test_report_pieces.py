"""Pages: nothing that is put in can break out, and drawings match their numbers."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from hypothesis import given
from hypothesis import strategies as st

from ipu_runtime.reports.axis import round_ticks
from ipu_runtime.reports.bar_chart import stacked_bars, timeline_chart
from ipu_runtime.reports.document import (
    Chart,
    Column,
    Lane,
    Row,
    Series,
    StackedBars,
    StackedRow,
    Table,
    Task,
    Timeline,
)
from ipu_runtime.reports.document_html import part_html
from ipu_runtime.reports.line_chart import line_chart
from ipu_runtime.reports.markup import Html, html, page, tag

VISIBLE = st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"))


@given(st.text(VISIBLE))
def test_visible_text_comes_out_as_it_was(text: str) -> None:
    element = ElementTree.fromstring(str(tag("p", text, title=text)))
    assert (element.text or "", element.get("title")) == (text, text)
    assert "<" not in html(text)


@given(st.text())
def test_any_text_is_text_without_control_characters(text: str) -> None:
    element = ElementTree.fromstring(str(tag("p", text, title=text)))
    assert len(element) == 0
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", element.text or "")


def test_only_declared_html_passes_unescaped() -> None:
    assert tag("b", "<i>") == "<b>&lt;i&gt;</b>"
    assert tag("b", Html("<i></i>")) == "<b><i></i></b>"
    assert tag("a", href='"><script>') == '<a href="&quot;&gt;&lt;script&gt;"></a>'


def test_numbers_stand_right_and_texts_left() -> None:
    columns = Column("a", right=True), Column("b")
    drawn = part_html(Table(columns, (Row(("1.5", "x")),)))
    cells = re.findall(r"<td( class=\"n\")?>", drawn)
    assert cells == [' class="n"', ""]


def test_a_page_needs_no_network() -> None:
    text = page("<t>", [tag("p", "http://example.org")], "end")
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=", text)
    assert "<title>&lt;t&gt;</title>" in text


def test_stacked_bars_are_as_long_as_their_numbers() -> None:
    rows = [StackedRow("IPU 0", {"weights": 30.0, "stash": 10.0}, limit=80.0)]
    bars = StackedBars(tuple(rows), lambda value: f"{value:.0f} B", "memory")
    drawing = stacked_bars(bars)
    widths = [
        float(w)
        for w in re.findall(r'<rect x="[\d.]+" y="5.0" width="([\d.]+)"', drawing)
    ]
    assert widths[0] / widths[1] == 3.0
    assert "IPU 0, weights: 30 B" in drawing
    assert "IPU 0, capacity: 80 B" in drawing


def test_spans_start_and_end_where_they_should() -> None:
    lane = Lane("IPU 1", (Task(25.0, 50.0, 0, "F0", 1, "hint"),))
    legend = (("F", "forward"),)
    drawing = timeline_chart(Timeline((lane,), 100.0, 1, (), legend, "", str, "time"))
    (x, width) = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawing)[
        0
    ]
    assert float(x) == 74 + 0.25 * (920 - 74 - 12)
    assert float(width) == 0.25 * (920 - 74 - 12)


def test_points_that_are_not_numbers_leave_a_gap() -> None:
    nan = float("nan")
    curve = Series("loss", (0.0, 1.0, 2.0, 3.0, 4.0), (1.0, 2.0, nan, 1.0, 2.0))
    drawing = line_chart(Chart("loss", "epoch", (curve,), "It fell."))
    assert drawing.count("<polyline") == 2
    assert "nan" not in drawing


def test_without_points_there_is_a_sentence_instead() -> None:
    empty = Chart("y", "x", (Series("a", (), ()),), "Nothing yet.")
    assert "No points." in line_chart(empty)


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(1, 12))
def test_ticks_lie_inside_and_are_few(low: float, width: float, count: int) -> None:
    ticks = round_ticks(low, low + width, count)
    slack = max(abs(low), width) * 1e-6 + 1e-9
    assert 1 <= len(ticks) <= count + 2
    assert all(low - slack <= tick <= low + width + slack for tick in ticks)
