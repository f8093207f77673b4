"""A call of `fit`, `evaluate` or `predict`, described before anything of it is built.

[Note: Models of another Keras]
What follows asks for no more of a model than: its layer calls in order, as a
`ModelGraph` whose calls can be run one by one (`read_once` chooses the reader); the
functions of `frameworks.keras_training` and `keras_calls`; and the variables that a
`MicroBatch` hands on. Another Keras has a reader beside `model_graph` that makes a
`ModelGraph` of its layer calls, and another side of those modules of `frameworks`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.describe.keras_reader import ReadModel, outline
from ipu_runtime.engine.describe.model_cache import read_hidden_once, read_once
from ipu_runtime.engine.describe.model_options import ModelOptions
from ipu_runtime.engine.describe.pipeline_cut import Cut, make_cut
from ipu_runtime.engine.describe.program_request import (
    optimizer_of,
    program_request,
    values_per_sample,
)
from ipu_runtime.engine.describe.step_count import StepCount, count_batches
from ipu_runtime.engine.feeds.feed import Feed
from ipu_runtime.engine.watch.interception import (
    Program,
    announce,
    is_intercepted,
)
from ipu_runtime.engine.watch.observer import ProgramPlan
from ipu_runtime.frameworks.keras_api import keras, tree, unpack_x_y_sample_weight
from ipu_runtime.frameworks.keras_calls import layers_inside
from ipu_runtime.frameworks.keras_training import (
    build_for_inference,
    build_for_training,
)
from ipu_runtime.frameworks.types import KerasModel, TensorSpec
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.system.device import Device


@dataclass(frozen=True)
class ModelCall:
    """What is asked for: a model, its data, and the device that shall run it."""

    model: KerasModel
    options: ModelOptions
    device: Device
    phase: str
    """`train`, `test` or `predict`."""
    feed: Feed
    steps: int | None
    """Batches of an epoch as the call says it, over all replicas; None: all."""
    epochs: int = 1

    @property
    def training(self) -> bool:
        """Whether weights change."""
        return self.phase == "train"

    @property
    def replicas(self) -> int:
        """How often the model fits on the device."""
        return self.device.replicas(self.options.shard_count)

    @property
    def per_execution(self) -> int:
        """Steps of an execution, as `compile` was told."""
        steps: int = self.model.steps_per_execution if self.model.compiled else 1
        return steps


@dataclass(frozen=True)
class DescribedCall:
    """What a call consists of, as far as rules, plan and programs need to know it."""

    read: ReadModel | None
    """The layer calls; None if they are hidden."""
    cut: Cut | None
    """The stages of a pipelined model."""
    micro_batches: int
    """Of a weight update, on one replica."""
    request: PlanRequest
    """With the batches and steps that were asked for: the rules judge those."""
    unknown: str
    """Why the model cannot be planned; empty if it can."""

    def request_of(self, count: StepCount) -> PlanRequest:
        """Return the request with the batches and steps that are really made."""
        batches = count.batches * self.request.instances
        return replace(
            self.request, batches=batches, steps_per_execution=count.per_execution
        )


def describe_call(call: ModelCall) -> DescribedCall:
    """Let Keras make the model's variables, read its calls, and say what it asks for.

    An error about counts of IPUs, batches or steps says what would be valid.
    """
    model, options, device = call.model, call.options, call.device
    batches = count_batches(call.feed, call.steps, call.per_execution)
    micro_batches = _micro_batches(call)
    if call.training:
        _check_optimizer(call, micro_batches)
    _make_variables(call)
    read = read_once(model)
    cut = _cut(call, read)
    spec, unknown = _spec(call, read)
    _, targets, _ = unpack_x_y_sample_weight(call.feed.element_spec)
    request = program_request(
        spec,
        device,
        batch_size=call.feed.batch_size,
        batches=batches,
        steps_per_execution=call.per_execution,
        label_values=values_per_sample(targets),
        optimizer=optimizer_of(model.optimizer) if call.training else None,
        accumulation=micro_batches,
        sums_micro_batches=options.accumulation_method.sums,
        # `PopDistStrategy` divides losses by the number of replicas.
        sums_replicas=device.loss_scale_replicas == 1,
        pipeline=cut.request() if cut else None,
    )
    return DescribedCall(read, cut, micro_batches, request, unknown)


def _micro_batches(call: ModelCall) -> int:
    options = call.options
    if not call.training:
        return 1
    if not options.pipelined:
        return options.accumulation or 1
    if options.pipeline_accumulation is None:
        raise ValueError(
            "A pipelined model needs the number of micro-batches per weight update: "
            "set `gradient_accumulation_steps_per_replica` with "
            "`set_pipelining_options`."
        )
    return options.pipeline_accumulation


def _check_optimizer(call: ModelCall, micro_batches: int) -> None:
    optimizer = call.model.optimizer
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    own = optimizer.gradient_accumulation_steps
    if own:
        raise ValueError(
            "Programs of the device accumulate gradients themselves, not with the "
            f"optimizer's `gradient_accumulation_steps` (set to {own}): leave it out, "
            "and use `set_gradient_accumulation_options` or `set_pipelining_options` "
            "of the model."
        )
    minimize = getattr(type(optimizer), "minimize", None)
    inherited = getattr(keras.optimizers.Optimizer, "minimize", None)
    if (micro_batches > 1 or call.options.pipelined) and minimize is not inherited:
        raise ValueError(
            f"The optimizer {type(optimizer).__name__} must not override "
            "OptimizerV2.minimize when gradients are accumulated."
        )


def _make_variables(call: ModelCall) -> None:
    # Layers of scripts may count on the size of the batch: it never changes here.
    symbols = tree.map_structure(
        lambda spec: tf.TensorSpec(spec.shape, spec.dtype), call.feed.element_spec
    )
    if call.phase != "predict":
        build_for_training(call.model, symbols)
    elif not all(layer.built for layer in layers_inside(call.model)):
        x, _, _ = unpack_x_y_sample_weight(symbols)
        build_for_inference(call.model, tree.map_structure(_keras_tensor, x))


def _keras_tensor(spec: TensorSpec) -> Any:
    dtype = keras.backend.standardize_dtype(spec.dtype)
    return keras.KerasTensor(spec.shape, dtype)


def _cut(call: ModelCall, read: ReadModel | None) -> Cut | None:
    if not call.options.pipelined:
        return None
    if read is None:
        raise RuntimeError("The layer calls of a pipelined model must be known.")
    return make_cut(read.graph, call.options, call.device)


def _spec(call: ModelCall, read: ReadModel | None) -> tuple[ModelSpec, str]:
    """Return the model as the plan sees it, and why it cannot be planned, if so.

    The rules need no more of such a model than its calls.
    """
    try:
        if read is not None:
            return read.checked_spec(), ""
        x, _, _ = unpack_x_y_sample_weight(call.feed.element_spec)
        return read_hidden_once(call.model, x), ""
    except ValueError as error:
        return outline(read.graph) if read else ModelSpec((), ()), str(error)


def announce_call(
    call: ModelCall, described: DescribedCall, planned: ProgramPlan
) -> None:
    """Describe the program to somebody outside of the script, before it runs."""
    if not is_intercepted():
        return
    model = call.model
    kind = "Sequential" if isinstance(model, keras.Sequential) else "Model"
    facts: dict[str, Any] = {"one_block": described.read is None, "keras": kind}
    if call.training:
        rate = getattr(model.optimizer, "learning_rate", None)
        facts["losses"] = list(map(_loss_facts, _losses_in_order(model)))
        facts["learning_rate"] = None if rate is None else float(rate)
    announce(
        Program(
            {"train": "fit", "test": "evaluate"}.get(call.phase, call.phase),
            "ipu_strategy",
            planned.request,
            planned.reason,
            facts,
        )
    )


def _losses_in_order(model: KerasModel) -> list[Any]:
    """Return what `compile` was given as losses, in the order of the outputs."""
    loss = model.loss
    if isinstance(loss, dict):
        return [loss.get(name) for name in getattr(model, "output_names", loss)]
    return list(loss) if isinstance(loss, (list, tuple)) else [loss]


def _loss_facts(loss: Any) -> tuple[str, bool]:
    """Return the name of a loss, empty if it has none, and if it takes logits."""
    name = loss if isinstance(loss, str) else getattr(loss, "name", "")
    name = name or getattr(loss, "__name__", "")
    return name, bool(getattr(loss, "from_logits", False))
