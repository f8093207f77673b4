"""Blocks of layers are written out with their names, values and skip connections."""

from __future__ import annotations

import tomllib

import pytest

from workbench.experiment.layer_blocks import expand_layers, keras_name

BLOCK = """
[[model.blocks]]
name = "residual"
layers = [
  { name = "narrow", kind = "Dense", units = "$units", activation = "relu" },
  { name = "wide", kind = "Dense", units = 8 },
  { name = "join", kind = "Add", inputs = ["$in", "wide"] },
]
[[model.layers]]
kind = "Input"
name = "x"
shape = [8]
"""


def expand(text: str):  # type: ignore[no-untyped-def]
    return expand_layers(tomllib.loads(text)["model"])


def test_repeats_are_chained_and_skip_over_themselves() -> None:
    layers, problems = expand(
        BLOCK + '[[model.layers]]\nblock = "residual"\nname = "r"\nrepeat = 2\n'
        "with = { units = 4 }\n"
    )
    assert problems == ()
    assert [(layer.name, layer.inputs) for layer in layers] == [
        ("x", ()),
        ("r_1_narrow", ("x",)),
        ("r_1_wide", ("r_1_narrow",)),
        ("r_1_join", ("x", "r_1_wide")),
        ("r_2_narrow", ("r_1_join",)),
        ("r_2_wide", ("r_2_narrow",)),
        ("r_2_join", ("r_1_join", "r_2_wide")),
    ]
    assert layers[1].settings == {"units": 4, "activation": "relu"}


def test_a_single_use_has_no_number_and_feeds_the_next_layer() -> None:
    layers, problems = expand(
        BLOCK + '[[model.layers]]\nblock = "residual"\nwith = { units = 4 }\n'
        '[[model.layers]]\nkind = "Dense"\nunits = 2\n'
    )
    assert problems == ()
    assert layers[-1].name == "dense"
    assert layers[-1].inputs == ("residual_join",)


def test_unnamed_layers_are_called_as_keras_does() -> None:
    dense = '[[model.layers]]\nkind = "Dense"\nunits = 2\n'
    layers, _ = expand(BLOCK + dense * 3)
    assert [layer.name for layer in layers] == ["x", "dense", "dense_1", "dense_2"]
    assert keras_name("MaxPooling2D") == "max_pooling2d"
    assert keras_name("MultiHeadAttention") == "multi_head_attention"


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ('block = "residul"', "model.layers[1].block", "did you mean residual?"),
        ('block = "residual"', "model.layers[1].with", "no value for $units"),
        ('block = "residual"\nrepeat = 0', "model.layers[1].repeat", "positive"),
        ('block = "residual"\nrepeats = 2', "model.layers[1].repeats", "repeat?"),
        ('block = "residual"\nrepeat = 99999999', "model.layers[1].repeat", "many"),
        ("units = 3", "model.layers[1].kind", "needs a kind"),
        ('kind = "Dense"\ninputs = ["y"]', "model.layers[1].inputs", "'y'"),
        ('kind = "Dense"\nname = "x"', "model.layers[1].name", "also the name"),
        ('kind = "Dense"\ninputs = 3', "model.layers[1].inputs", "list"),
    ],
)
def test_mistakes_name_the_place(text: str, where: str, words: str) -> None:
    _, problems = expand(f"{BLOCK}[[model.layers]]\n{text}\n")
    assert any(
        problem.where == where and words in str(problem) for problem in problems
    ), [str(problem) for problem in problems]


def test_tables_of_the_wrong_type_are_problems() -> None:
    _, problems = expand_layers({"layers": "Dense", "blocks": [3, {"name": ""}]})
    assert {problem.where for problem in problems} == {
        "model.layers",
        "model.blocks[0]",
        "model.blocks[1].name",
    }
