"""Texts are cut and padded by the cells that they take on the screen."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from workbench.views.cells import bar, cut, fit, fit_apart, pad, wrapped

WIDE = [
    "日本語のモデル",
    "👍 model",
    "e\u0301tude",
    "한글",
    "plain",
    "",
    "ﾊﾟｰｾﾌﾟ",
    "❤️x",
]


@pytest.mark.parametrize("text", WIDE)
@pytest.mark.parametrize("width", range(12))
def test_a_fitted_text_has_exactly_the_cells_asked_for(text: str, width: int) -> None:
    assert cell_len(fit(text, width)) == width
    assert cell_len(fit(text, width, right=True)) == width


@pytest.mark.parametrize("text", WIDE)
@pytest.mark.parametrize("width", range(12))
@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_cut_text_is_never_wider(text: str, width: int, ascii_only: bool) -> None:
    assert cell_len(cut(text, width, ascii_only=ascii_only)) <= width


def test_a_wide_sign_is_left_out_whole() -> None:
    assert cut("日本語", 4) == "日…"
    assert fit("日本語", 4) == "日… "
    assert pad("日本", 6, right=True) == "  日本"


def test_texts_that_end_differently_keep_their_ends() -> None:
    cut_texts = fit_apart(
        ["cifar10-ipu-estimator", "cifar10-ipu-estimator-replicated"], 16
    )
    assert cut_texts == ["cifar10-ip…mator", "cifar10-ip…cated"]


def test_wide_texts_that_end_differently_keep_their_ends() -> None:
    first, second = fit_apart(["畳み込み層一号", "畳み込み層二号"], 9)
    assert first != second
    assert cell_len(first) == cell_len(second) == 9


def test_what_differs_at_the_beginning_is_cut_at_the_end() -> None:
    assert fit_apart(["mnist-ipu-pipelined", "mnist"], 10) == [
        "mnist-ipu…",
        "mnist     ",
    ]


def test_the_same_text_twice_stays_the_same() -> None:
    assert fit_apart(["abcdefgh", "abcdefgh"], 4) == ["abc…", "abc…"]


@pytest.mark.parametrize("width", [10, 13, 40])
def test_no_wrapped_line_is_wider_and_no_sign_is_lost(width: int) -> None:
    text = "層 畳み込み畳み込み畳み込み畳み込み of a model-with-hyphens 👍 and more"
    rows = wrapped(text, width, hanging=2)
    assert all(cell_len(row) <= width for row in rows)
    assert "".join(rows).replace(" ", "") == text.replace(" ", "")


def test_names_stay_whole_where_that_is_asked() -> None:
    rows = wrapped("set execution.accumulation_reduction now", 12, whole_words=True)
    assert "execution.accumulation_reduction" in rows


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("share", [0.0, 1e-9, 0.3, 1.0, 2.0])
def test_a_bar_fills_its_width_and_anything_at_all_is_seen(
    share: float, ascii_only: bool
) -> None:
    drawn = bar(share, 7, ascii_only=ascii_only)
    assert cell_len(drawn) == 7
    assert bool(drawn.strip()) is (share > 0)
