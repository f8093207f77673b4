"""Bad models give problems with their place, never exceptions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipu_runtime.plan.layers.shapes import LAYER_KINDS, resolve_model
from ipu_runtime.plan.model.model_spec import LayerSpec
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.request import PlanRequest

INPUT = LayerSpec("in", "Input", {"shape": [8, 8, 3]})


def problems_of(kind: str, *inputs: str, **layer_settings: Any) -> list[str]:
    layer = LayerSpec("x", kind, layer_settings, inputs or ("in",))
    model, problems = resolve_model([INPUT, layer])
    assert (model is None) == bool(problems)
    return [str(problem) for problem in problems]


@pytest.mark.parametrize(
    ("kind", "layer_settings", "text"),
    [
        (
            "Conv2D",
            {"filters": 4, "kernel_size": 3, "filterz": 8},
            "model.layers[1].filterz: unknown; did you mean filters?",
        ),
        ("Dense", {}, "model.layers[1].units: missing; Dense needs it"),
        (
            "Dense",
            {"units": 0},
            "model.layers[1].units: is 0; must be a whole number of at least 1",
        ),
        (
            "Dense",
            {"units": 3, "activation": "rleu"},
            "model.layers[1].activation: is 'rleu'; did you mean relu?",
        ),
        (
            "Conv2D",
            {"filters": 4, "kernel_size": 9},
            "model.layers[1].kernel_size: [9, 9] is larger than the input of 8 x 8; "
            "use a smaller one, or padding = same",
        ),
        (
            "Conv2D",
            {"filters": 4, "kernel_size": 3, "groups": 2},
            "model.layers[1].groups: 2 does not divide 3 input channels and 4 filters",
        ),
        (
            "Reshape",
            {"target_shape": [5, -1]},
            "model.layers[1].target_shape: [5, -1] cannot hold the 192 values of "
            "[8, 8, 3]",
        ),
        (
            "LSTM",
            {"units": 4},
            "model.layers[1]: LSTM 'x': needs an input of time steps and features, "
            "not [8, 8, 3]",
        ),
        (
            "Conv2d",
            {},
            "model.layers[1].kind: 'Conv2d' is unknown; did you mean Conv2D?",
        ),
        ("Add", {}, "model.layers[1].inputs: 1 inputs; Add takes at least 2"),
    ],
)
def test_problem_says_where_and_what_would_do(
    kind: str, layer_settings: dict[str, Any], text: str
) -> None:
    assert problems_of(kind, **layer_settings) == [text]


def test_every_problem_is_reported_at_once() -> None:
    layers = [
        INPUT,
        LayerSpec("a", "Dense", {"unit": 3}, ("in",)),
        LayerSpec("b", "Dense", {"units": 3}, ("c",)),
        LayerSpec("c", "Dropout", {"rate": 2.0}, ("in",)),
        LayerSpec("c", "Flatten", {}, ("in",)),
    ]
    _, problems = resolve_model(layers)
    assert [problem.where for problem in problems] == [
        "model.layers[1].unit",
        "model.layers[1].units",
        "model.layers[2].inputs",
        "model.layers[3].rate",
        "model.layers[4].name",
    ]


def test_a_model_needs_an_input_and_a_layer() -> None:
    assert "Input" in str(resolve_model([])[1][0])
    assert "besides" in str(resolve_model([INPUT])[1][0])


def test_skip_connections_keep_both_branches() -> None:
    layers = [
        INPUT,
        LayerSpec("a", "Conv2D", {"filters": 3, "kernel_size": 1}, ("in",)),
        LayerSpec("b", "Conv2D", {"filters": 3, "kernel_size": 1}, ("a",)),
        LayerSpec("sum", "Add", {}, ("a", "b")),
        LayerSpec("both", "Concatenate", {"axis": -1}, ("sum", "a")),
        LayerSpec("flat", "Flatten", {}, ("both",)),
        LayerSpec("out", "Dense", {"units": 2}, ("flat",)),
    ]
    model, problems = resolve_model(layers)
    assert problems == ()
    assert model is not None
    plan = make_plan(PlanRequest(model, 4, 10))
    image, labels = 8 * 8 * 3, 1
    crossing = [layer.crossing_bytes // 16 - labels for layer in plan.layers]
    # After b both a and b cross; after the sum a still waits for the concatenation.
    assert crossing == [image, 2 * image, 2 * image, 2 * image, 2 * image, 0]
    # The gradient of a comes from three layers.
    names = [op.name for op in plan.layers[0].backward_ops]
    assert names.count("gradient add at fork") == 2


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70),
    st.floats(-1, 2),
    st.sampled_from(["same", "valid", "relu", "", "x"]),
    st.lists(st.integers(-2, 9), max_size=4),
    st.lists(st.lists(st.integers(0, 3), max_size=2), max_size=2),
)


@st.composite
def any_layers(draw: st.DrawFn) -> list[LayerSpec]:
    shape = draw(st.lists(st.integers(-1, 9), max_size=4))
    layers = [LayerSpec("l0", "Input", {"shape": shape})]
    for index in range(1, draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(sorted(LAYER_KINDS)))
        names = list(LAYER_KINDS[kind].own_settings)
        chosen = draw(st.dictionaries(st.sampled_from([*names, "name"]), values))
        for name in LAYER_KINDS[kind].required:
            chosen.setdefault(name, draw(st.integers(1, 6)))
        count = draw(st.integers(0, 3))
        inputs = tuple(
            f"l{draw(st.integers(max(index - 2, 0), index))}" for _ in range(count)
        )
        layers.append(LayerSpec(f"l{index}", kind, chosen, inputs))
    return layers


@settings(max_examples=120)
@given(layers=any_layers(), batch=st.integers(1, 3), training=st.booleans())
def test_any_model_gives_a_plan_or_problems(
    layers: list[LayerSpec], batch: int, training: bool
) -> None:
    model, problems = resolve_model(layers)
    assert (model is None) == bool(problems)
    if model is not None:
        plan = make_plan(PlanRequest(model, batch, 10, training=training))
        assert plan.ipu_step_us > 0
