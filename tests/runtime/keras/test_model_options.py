"""Option methods of extended models: what they store and what they refuse."""

from __future__ import annotations

import keras
import pytest

from ipu_runtime.engine.describe.model_options import ReplicatedMetricReductionMethod
from ipu_runtime.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.keras.extensions.extension_state import state_of

pytestmark = pytest.mark.slow


@pytest.fixture
def model() -> keras.Model:
    with IPUStrategy().scope():
        inputs = keras.Input((3,))
        return keras.Model(inputs, keras.layers.Dense(2)(inputs))


def test_models_outside_a_scope_have_no_options() -> None:
    inputs = keras.Input((3,))
    plain = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    assert not hasattr(plain, "set_pipelining_options")
    assert type(plain).__name__ == "Functional"


def test_extended_models_keep_name_and_original_class(model: keras.Model) -> None:
    assert type(model).__name__ == "Functional"
    assert type(model).__original_class__.__module__ == "keras.src.models.functional"
    assert isinstance(model, type(model).__original_class__)


def test_extensions_can_be_disabled() -> None:
    with IPUStrategy(enable_keras_extensions=False).scope():
        assert not hasattr(keras.Sequential([]), "set_pipelining_options")


@pytest.mark.parametrize("steps", [0, -1, 1.5, "4"])
def test_accumulation_must_be_a_positive_integer(
    model: keras.Model, steps: object
) -> None:
    for setter in (
        model.set_pipelining_options,
        model.set_gradient_accumulation_options,
    ):
        with pytest.raises(ValueError, match="to be a positive integer"):
            setter(gradient_accumulation_steps_per_replica=steps)


def test_pipelining_options_keep_what_is_not_given(model: keras.Model) -> None:
    model.set_pipelining_options(
        8, [0, 1], True, "mean", recomputation_mode=None, offload_activations=True
    )
    model.set_pipelining_options()
    options = state_of(model).options
    assert options.pipeline_accumulation == 8
    assert options.device_mapping == (0, 1)
    assert options.accumulate_outfeed
    # These two start again with every call.
    assert options.accumulation_method is GradientAccumulationReductionMethod.SUM
    assert options.pipelining_kwargs == {
        "gradient_accumulation_for_captured_grads": False
    }


def test_both_setters_share_the_reduction_method(model: keras.Model) -> None:
    model.set_pipelining_options(gradient_accumulation_reduction_method="running_mean")
    model.set_gradient_accumulation_options(
        4, gradient_accumulation_reduction_method="MEAN"
    )
    options = state_of(model).options
    assert options.accumulation_method is GradientAccumulationReductionMethod.MEAN
    assert options.accumulation == 4
    assert options.pipeline_accumulation is None


@pytest.mark.parametrize("mapping", [(0, 1), [0, "1"], 3])
def test_device_mapping_must_be_a_list_of_integers(
    model: keras.Model, mapping: object
) -> None:
    with pytest.raises(ValueError, match="device_mapping"):
        model.set_pipelining_options(device_mapping=mapping)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gradient_accumulation_count", "gradient_accumulation_steps_per_replica"),
        ("infeed_queue", "automatically set by Keras"),
        ("outfeed_loss", "not compatible with Keras"),
        ("experimental_normalize_gradients", "no longer available"),
    ],
)
def test_pipeline_arguments_that_keras_decides_are_refused(
    model: keras.Model, name: str, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        model.set_pipelining_options(**{name: 1})


@pytest.mark.parametrize("name", ["opt", "num_mini_batches"])
def test_accumulation_arguments_that_keras_decides_are_refused(
    model: keras.Model, name: str
) -> None:
    with pytest.raises(ValueError, match=name):
        model.set_gradient_accumulation_options(2, **{name: 1})


def test_reduction_methods_are_parsed(model: keras.Model) -> None:
    model.set_replication_options("mean")
    reduction = state_of(model).options.metric_reduction
    assert reduction is ReplicatedMetricReductionMethod.MEAN
    with pytest.raises(ValueError, match="NONE, LIST, SUM, MEAN"):
        model.set_replication_options("median")
    with pytest.raises(ValueError, match="SUM, MEAN, RUNNING_MEAN"):
        model.set_pipelining_options(gradient_accumulation_reduction_method="median")


@pytest.mark.parametrize("name", ["dataset", "element_spec"])
def test_infeed_arguments_that_keras_decides_are_refused(
    model: keras.Model, name: str
) -> None:
    with pytest.raises(ValueError, match="automatically set"):
        model.set_infeed_queue_options(**{name: 1})


@pytest.mark.parametrize("name", ["outfeed_mode", "device_ordinal"])
def test_outfeed_arguments_that_do_not_fit_are_refused(
    model: keras.Model, name: str
) -> None:
    with pytest.raises(ValueError, match="not compatible with Keras"):
        model.set_outfeed_queue_options(**{name: 1})


def test_feed_arguments_are_those_of_the_queues(model: keras.Model) -> None:
    model.set_infeed_queue_options(prefetch_depth=2, optimise_latency=True)
    model.set_outfeed_queue_options(buffer_depth=2, optimise_latency=True)
    with pytest.raises(ValueError, match="prefetch_depth is -1"):
        model.set_infeed_queue_options(prefetch_depth=-1)
    with pytest.raises(TypeError, match="prefetch_dept"):
        model.set_infeed_queue_options(prefetch_dept=2)
    with pytest.raises(ValueError, match="buffer_depth is 0"):
        model.set_outfeed_queue_options(buffer_depth=0)
    with pytest.raises(TypeError, match="depth"):
        model.set_outfeed_queue_options(depth=2)


def test_running_eagerly_is_refused(model: keras.Model) -> None:
    model.compile("sgd", "mse", run_eagerly=True)
    with pytest.raises(RuntimeError, match="run_eagerly"):
        model.fit([[0.0] * 3], [[0.0] * 2])


def test_a_strategy_for_another_device_is_refused() -> None:
    with IPUStrategy("/device:CPU:0").scope():
        other = keras.Sequential([keras.layers.Dense(1)])
    other.compile("sgd", "mse")
    with pytest.raises(ValueError, match="can only be used on an IPU device"):
        other.predict([[0.0]])


def test_overridden_train_step_is_refused() -> None:
    class Custom(keras.Model):
        def call(self, x: object) -> object:
            return x

        def train_step(self, data: object) -> object:
            return {}

    with IPUStrategy().scope():
        custom = Custom()
    custom.compile("sgd", "mse")
    with pytest.raises(RuntimeError, match="The function `train_step` for the model"):
        custom.fit([[0.0]], [[0.0]])


def test_a_subclass_without_call_is_refused() -> None:
    class Empty(keras.Model):
        pass

    with IPUStrategy().scope():
        empty = Empty()
    empty.compile("sgd", "mse")
    with pytest.raises(NotImplementedError, match="no `call`"):
        empty.fit([[0.0]], [[0.0]])


def test_unknown_arguments_are_refused_and_old_ones_ignored(
    model: keras.Model,
) -> None:
    with pytest.raises(TypeError, match="bach_size"):
        model.fit([[0.0] * 3], bach_size=1)
