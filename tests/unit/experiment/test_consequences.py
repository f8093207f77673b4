"""What the choices of a field would change."""

from __future__ import annotations

import pytest

from workbench.editing.consequences import consequence
from workbench.editing.draft import Draft
from workbench.experiment.preset_store import load_preset


@pytest.mark.parametrize(
    ("preset", "path", "choice", "words"),
    [
        ("bert-large-pod16", "train.optimizer", "adam", "% samples/s, "),
        (
            "mnist-ipu-pipelined",
            "pipeline.schedule",
            "Sequential",
            "% samples/s, memory ",
        ),
        ("mnist-ipu", "train.loss", "mse", "changes nothing"),
        ("mnist-ipu-pipelined", "execution.api", "cpu", "cannot run: "),
    ],
)
def test_a_choice_says_what_it_does(
    preset: str, path: str, choice: str, words: str
) -> None:
    draft = Draft(load_preset(preset))
    said = consequence(draft.tables, draft.plan, path, choice)
    assert words in said


def test_figures_are_those_of_the_changed_experiment() -> None:
    draft = Draft(load_preset("bert-large-pod16"))
    before = draft.plan
    said = consequence(draft.tables, before, "train.optimizer", "adam")
    draft.set_text("train.optimizer", "adam")
    after = draft.plan
    assert before is not None
    assert after is not None
    percent = round((after.samples_per_second / before.samples_per_second - 1) * 100)
    assert said.startswith(f"{percent:+d} % samples/s")
