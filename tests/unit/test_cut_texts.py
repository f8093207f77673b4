"""Texts that are cut stay different from each other."""

from __future__ import annotations

from workbench.ui.content.pieces import fit_apart


def test_texts_that_end_differently_keep_their_ends() -> None:
    cut = fit_apart(["cifar10-ipu-estimator", "cifar10-ipu-estimator-replicated"], 16)
    assert cut == ["cifar10-ip…mator", "cifar10-ip…cated"]


def test_what_differs_at_the_beginning_is_cut_at_the_end() -> None:
    assert fit_apart(["mnist-ipu-pipelined", "mnist"], 10) == [
        "mnist-ipu…",
        "mnist     ",
    ]


def test_the_same_text_twice_stays_the_same() -> None:
    assert fit_apart(["abcdefgh", "abcdefgh"], 4) == ["abc…", "abc…"]
