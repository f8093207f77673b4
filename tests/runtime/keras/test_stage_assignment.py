"""Pipeline stages of Functional, Sequential, nested and subclassed models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from ipu_runtime.config import IPUConfig, reset_ipu_configuration
from ipu_runtime.engine.describe.model_graph import model_graph
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.keras import (
    FunctionalLayerPipelineStageAssignment,
    FunctionalNestedModelPipelineStageAssignment,
    PipelineStage,
    SequentialLayerPipelineStageAssignment,
    SequentialNestedModelPipelineStageAssignment,
)
from ipu_runtime.keras.extensions.extension_state import state_of

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _scope() -> Iterator[None]:
    keras.backend.clear_session()
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    with IPUStrategy().scope():
        yield
    reset_ipu_configuration()


def stages(model: Any) -> list[int]:
    return [stage for _, stage in state_of(model).options.stages]


def diamond() -> keras.Model:
    """Two branches that meet in the second stage."""
    inputs = keras.Input((4,), name="in")
    with PipelineStage(0):
        x = keras.layers.Dense(4, name="a")(inputs)
    with PipelineStage(1):
        y = keras.layers.Dense(4, name="b")(x)
        z = keras.layers.Add(name="c")([x, y])
    return keras.Model(inputs, z, name="diamond")


def test_a_nested_model_that_is_called_with_a_mask_is_one_layer() -> None:
    inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4)], name="inner")
    entry, mask = keras.Input((4,)), keras.Input((), dtype="bool")
    end = keras.layers.Dense(2, name="end")
    model = keras.Model([entry, mask], end(inner(entry, mask=mask)))
    calls = model.get_pipeline_stage_assignment()
    assert [call.layer.name for call in calls] == ["inner", "end"]
    assert [call.name for call in model_graph(model).calls] == ["inner", "end"]


def test_calls_in_a_stage_are_tagged() -> None:
    model = diamond()
    assert stages(model) == [0, 1, 1]
    assignment = model.get_pipeline_stage_assignment()
    assert [item.layer.name for item in assignment] == ["a", "b", "c"]
    assert [layer.name for layer in assignment[2].inbound_layers] == ["a", "b"]
    assert str(assignment[0]) == "Layer: a (0) Pipeline Stage: 0"


def test_a_call_counts_before_the_layer() -> None:
    with PipelineStage(0):
        first, second = keras.layers.Dense(2), keras.layers.Dense(2)
    inputs = keras.Input((2,))
    x = first(inputs)
    with PipelineStage(1):
        x = second(x)
    assert stages(keras.Model(inputs, x)) == [0, 1]


def test_untagged_models_are_not_pipelined() -> None:
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    assert state_of(model).options.stages is None
    assert model.get_pipeline_stage_assignment()[0].pipeline_stage is None


def test_all_layers_or_none_must_be_tagged() -> None:
    inputs = keras.Input((2,))
    with PipelineStage(0):
        x = keras.layers.Dense(2)(inputs)
    x = keras.layers.Dense(2, name="forgotten")(x)
    with pytest.raises(ValueError, match=r"All layers of a pipelined .* forgotten"):
        keras.Model(inputs, x)


def test_stages_may_not_be_nested_or_negative() -> None:
    with (
        PipelineStage(0),
        pytest.raises(RuntimeError, match="must not be nested"),
        PipelineStage(1),
    ):
        pass
    with pytest.raises(ValueError, match="-1"), PipelineStage(-1):
        pass


def test_tags_end_with_the_stage() -> None:
    with PipelineStage(0):
        pass
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    assert state_of(model).options.stages is None


def test_dependencies_must_come_from_earlier_stages() -> None:
    model = diamond()
    assignment = model.get_pipeline_stage_assignment()
    assignment[0].pipeline_stage = 2
    with pytest.raises(ValueError, match="has not yet been executed"):
        model.set_pipeline_stage_assignment(assignment)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda items: tuple(items), "must be a list"),
        (lambda items: items[:2], r"\(2\).*\(3\)"),
        (lambda items: [0, 1, 1], "FunctionalLayerPipelineStageAssignment"),
        (lambda items: [items[1], items[0], items[2]], "post-order"),
        (
            lambda items: [
                FunctionalLayerPipelineStageAssignment(items[0].layer, 0),
                *items[1:],
            ],
            "has not been assigned a pipeline stage",
        ),
    ],
)
def test_invalid_assignments_of_a_graph_are_refused(change: Any, words: str) -> None:
    model = diamond()
    with pytest.raises(ValueError, match=words):
        model.set_pipeline_stage_assignment(
            change(model.get_pipeline_stage_assignment())
        )
    assert stages(model) == [0, 1, 1]


def test_reset_makes_it_a_plain_model() -> None:
    model = diamond()
    model.reset_pipeline_stage_assignment()
    assert state_of(model).options.stages is None


def stack(*names: str) -> keras.Sequential:
    return keras.Sequential([keras.layers.Dense(2, name=name) for name in names])


def test_sequential_takes_numbers_and_assignments() -> None:
    model = stack("a", "b", "c")
    last = SequentialLayerPipelineStageAssignment(model.layers[2], 1)
    given: list[Any] = [0, 1, last]
    model.set_pipeline_stage_assignment(given)
    assert stages(model) == [0, 1, 1]
    assert given[0].pipeline_stage == 0
    assert model.get_pipeline_stage_assignment()[2] is last


def test_sequential_does_not_read_tags() -> None:
    with PipelineStage(0):
        tagged = keras.layers.Dense(2)
    model = keras.Sequential([keras.Input((2,)), tagged, keras.layers.Dense(2)])
    assert state_of(model).options.stages is None
    assert not hasattr(model._functional, "set_pipelining_options")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1, 1, 1], "0th pipeline stage"),
        ([0, 2, 2], "must be in stage 0 or 1"),
        ([0, 1, 0], "must be in stage 1 or 2"),
        ([0, 1], r"\(2\).*\(3\)"),
        ([0, None, 1], "All elements of `pipeline_stage_assignment`"),
        ("001", "must be a list"),
    ],
)
def test_invalid_assignments_of_a_stack_are_refused(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        stack("a", "b", "c").set_pipeline_stage_assignment(given)


def test_adding_a_layer_invalidates_the_assignment() -> None:
    model = stack("a", "b")
    model.set_pipeline_stage_assignment([0, 1])
    model.add(keras.layers.Dense(2))
    assert state_of(model).options.stages is None


def test_nested_models_have_nested_assignments() -> None:
    inner_inputs = keras.Input((2,))
    inner = keras.Model(
        inner_inputs,
        keras.layers.Dense(2, name="i2")(
            keras.layers.Dense(2, name="i1")(inner_inputs)
        ),
        name="inner",
    )
    inputs = keras.Input((2,))
    outer = keras.Model(inputs, keras.layers.Dense(2, name="o")(inner(inputs)))
    assignment = outer.get_pipeline_stage_assignment()
    assert isinstance(assignment[0], FunctionalNestedModelPipelineStageAssignment)
    assert assignment[0].inbound_layers == [outer.layers[0]]
    first, second = assignment[0].pipeline_stage_assignments
    first.pipeline_stage, second.pipeline_stage = 0, 1
    assignment[1].pipeline_stage = 1
    outer.set_pipeline_stage_assignment(assignment)
    assert dict(state_of(outer).options.stages) == {
        (("inner", 0), ("i1", 0)): 0,
        (("inner", 0), ("i2", 0)): 1,
        (("o", 0),): 1,
    }
    assert inner.get_pipeline_stage_assignment()[0].pipeline_stage is None


def test_nested_models_in_a_stack() -> None:
    inner = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(2), keras.layers.Dense(2)], name="inner"
    )
    model = keras.Sequential([keras.Input((2,)), inner, keras.layers.Dense(2)])
    assignment = model.get_pipeline_stage_assignment()
    assert isinstance(assignment[0], SequentialNestedModelPipelineStageAssignment)
    for item in assignment[0].pipeline_stage_assignments:
        item.pipeline_stage = 0
    assignment[1].pipeline_stage = 1
    model.set_pipeline_stage_assignment(assignment)
    assert stages(model) == [0, 0, 1]


class Tagged(keras.Model):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with PipelineStage(0):
            self.first = keras.layers.Dense(2, name="first")
        with PipelineStage(1):
            self.second = keras.layers.Dense(2, name="second")

    def call(self, x: Any) -> Any:
        return self.second(self.first(x))


@pytest.mark.filterwarnings("ignore:`build")
def test_subclassed_models_read_tags_when_built() -> None:
    model = Tagged()
    with pytest.raises(RuntimeError, match="has not been built yet"):
        model.get_pipeline_stage_assignment()
    model.build((8, 3))
    assignment = model.get_pipeline_stage_assignment()
    assert [item.pipeline_stage for item in assignment] == [0, 1]


class Skipping(Tagged):
    skips = False

    def call(self, x: Any) -> Any:
        x = self.first(x)
        return x if self.skips else self.second(x)


@pytest.mark.filterwarnings("ignore:`build")
def test_changed_calls_make_the_assignment_invalid() -> None:
    x = np.ones((8, 3), np.float32)
    model = Skipping()
    model.compile("sgd", "mse", steps_per_execution=2)
    model.predict(x, batch_size=4, verbose=0)
    model.predict(x, batch_size=2, verbose=0)
    model.skips = True
    with pytest.raises(RuntimeError, match="are no longer valid"):
        model.predict(x, batch_size=4, verbose=0)


class WithoutSuper(keras.Model):
    def get_config(self) -> dict[str, Any]:
        return {}


class WithArguments(keras.Model):
    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def get_config(self) -> Any:
        config = super().get_config()
        config.pop("units", None)
        return config


def test_subclassed_models_that_cannot_be_loaded() -> None:
    with pytest.raises(RuntimeError, match="super"):
        WithoutSuper.from_config(WithoutSuper().get_config())
    saved = WithArguments(3).get_config()
    with pytest.raises(NotImplementedError, match="from_config"):
        WithArguments.from_config(saved)


GRAPH_SUMMARY = """\
Model: "diamond"
________________________________________
Layer (type) (n Input Layers    Pipeline
========================================
a (Dense) (0)   in              0
________________________________________
b (Dense) (0)   a               1
________________________________________
c (Add) (0)     a               1
                b
========================================"""
STACK_SUMMARY = """\
Model: "stack"
____________________
Layer (ty Pipeline S
====================
a (Dense) 0
____________________
b (Dense) 1
===================="""


def test_summary_of_a_graph() -> None:
    lines: list[str] = []
    diamond().print_pipeline_stage_assignment_summary(40, lines.append)
    assert "\n".join(line.rstrip() for line in lines) == GRAPH_SUMMARY
    assert {len(line) for line in lines[1:]} == {40}


def test_summary_of_a_stack() -> None:
    model = keras.Sequential(
        [keras.layers.Dense(1, name="a"), keras.layers.Dense(1, name="b")], name="stack"
    )
    model.set_pipeline_stage_assignment([0, 1])
    lines: list[str] = []
    model.print_pipeline_stage_assignment_summary(20, lines.append)
    assert "\n".join(line.rstrip() for line in lines) == STACK_SUMMARY


def test_default_widths_of_summaries() -> None:
    graph: list[str] = []
    diamond().print_pipeline_stage_assignment_summary(print_fn=graph.append)
    plain: list[str] = []
    stack("a", "b").print_pipeline_stage_assignment_summary(print_fn=plain.append)
    assert len(graph[1]) == 89
    assert len(plain[1]) == 60


@pytest.mark.parametrize("suffix", ["keras", "h5"])
def test_saved_functional_models_keep_stages_and_options(
    tmp_path: Path, suffix: str
) -> None:
    model = diamond()
    model.set_pipelining_options(
        4, [0, 1], gradient_accumulation_reduction_method="mean"
    )
    model.set_asynchronous_callbacks(True)
    file = tmp_path / f"model.{suffix}"
    model.save(file)
    loaded = keras.models.load_model(file)
    saved, restored = state_of(model).options, state_of(loaded).options
    assert stages(loaded) == [0, 1, 1]
    assert restored.pipeline_accumulation == 4
    assert restored.device_mapping == (0, 1)
    assert restored.accumulation_method is saved.accumulation_method
    assert restored.asynchronous_callbacks
    assert restored.pipelining_kwargs == {}


@pytest.mark.parametrize("suffix", ["keras", "h5"])
def test_saved_stacks_keep_stages(tmp_path: Path, suffix: str) -> None:
    model = stack("a", "b")
    model.build((None, 2))
    model.set_pipeline_stage_assignment([0, 1])
    file = tmp_path / f"model.{suffix}"
    model.save(file)
    assert stages(keras.models.load_model(file)) == [0, 1]


def test_clones_keep_stages_and_options() -> None:
    model, pile = diamond(), stack("a", "b")
    model.set_pipelining_options(4)
    pile.set_pipeline_stage_assignment([0, 1])
    clone = keras.models.clone_model(model)
    assert stages(clone) == [0, 1, 1]
    assert state_of(clone).options.pipeline_accumulation == 4
    assert stages(keras.models.clone_model(pile)) == [0, 1]


def test_configuration_has_the_documented_keys() -> None:
    config = diamond().get_config()
    assert config["pipeline_stage_assignment"] == [[1, 0, 0], [2, 0, 1], [3, 0, 1]]
    assert config["gradient_accumulation_reduction_method"] == 0
    assert config["replicated_metric_reduction_method"] == 1
    assert stack("a").get_config()["pipeline_stage_assignment_valid"] is False


def test_saved_subclassed_models_keep_stages(tmp_path: Path) -> None:
    x = np.ones((8, 3), np.float32)
    model = Tagged()
    model.set_pipelining_options(4)
    model.compile("sgd", "mse", steps_per_execution=2)
    expected = model.predict(x, batch_size=4, verbose=0)
    assert stages(model) == [0, 1]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(
        tmp_path / "model.keras", custom_objects={"Tagged": Tagged}
    )
    assert state_of(loaded).options.pipeline_accumulation == 4
    np.testing.assert_allclose(
        loaded.predict(x, batch_size=4, verbose=0), expected, rtol=1e-6
    )
    assert stages(loaded) == [0, 1]
