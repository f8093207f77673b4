"""What one replica does with one micro-batch, without changing any variable.

[Note: Random draws]
A random draw is keyed by the layer's own seed, the weight update, the replica, the
layer call and the micro-batch, and not by how many draws came before. So a pipeline
drops the same values as a plain loop, whatever its schedule, and a recomputed stage
drops what its forward pass dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import tensorflow as tf

from ipu_runtime.engine.build.programs.gradient_capture import (
    Captured,
    arguments_for,
    capturing,
)
from ipu_runtime.engine.build.programs.loss_scaling import ObservedGradients
from ipu_runtime.engine.build.replicas.replica_state import ReplicaState
from ipu_runtime.engine.build.tracing_context import TracedReplica, tracing_for
from ipu_runtime.engine.describe.model_graph import Call, ModelGraph
from ipu_runtime.engine.numerics.half_models import half_emulation
from ipu_runtime.frameworks.keras_api import keras, tree, unpack_x_y_sample_weight
from ipu_runtime.frameworks.keras_calls import entered, layers_inside, takes_training
from ipu_runtime.frameworks.keras_state import (
    seed_generators,
    shared_seed_generator,
    stored,
)
from ipu_runtime.frameworks.keras_training import loss_tracker, total_loss
from ipu_runtime.frameworks.tensorflow_graphs import traced
from ipu_runtime.frameworks.types import KerasModel, Structure, Tensor, Variable
from ipu_runtime.system.device import Device
from ipu_runtime.system.instance_exchange import (
    lost_instances_named,
    mean_over_instances,
    sum_over_instances,
)

_DRAWS_PER_CALL = 64
"""Room for layers that draw several times in one call."""
_CALL_STRIDE = 15_485_863
_SEED_STRIDE = 104_729


class DrawKeys:
    """The seed generators of a model, and the values that they take."""

    def __init__(self, model: KerasModel, seed: int) -> None:
        self._seed = seed
        self._by_layer = {
            id(layer): generators
            for layer in layers_inside(model)
            if (generators := seed_generators(layer))
        }
        self._global = shared_seed_generator()

    @property
    def variables(self) -> tuple[Tensor, ...]:
        """The variables in which the generators keep their state."""
        layers = [item for items in self._by_layer.values() for item in items]
        return tuple(item.state for item in (*layers, self._global))

    def enter(self, scope: Any, counter: Tensor) -> None:
        """Key all generators, for a model that runs as a whole.

        Args:
            counter: number of the micro-batch over all updates and replicas.
        """
        for variable in self.variables:
            self._set(scope, variable, counter, 0)

    def before_call(self, scope: Any, call: Call, counter: Tensor) -> None:
        """Key the generators of the layer that is about to be called."""
        for layer in layers_inside(call.operation):
            for generator in self._by_layer.get(id(layer), ()):
                self._set(scope, generator.state, counter, call.draw_index)

    def _set(self, scope: Any, variable: Any, counter: Tensor, draw_index: int) -> None:
        own = tf.cast(stored(variable)[0], tf.int64)
        first = own + draw_index * _CALL_STRIDE + self._seed * _SEED_STRIDE
        second = tf.cast(counter, tf.int64) * _DRAWS_PER_CALL
        scope.add_update(
            (variable, tf.cast(tf.stack([first, second]), stored(variable).dtype))
        )


class LoopState(NamedTuple):
    """What a loop over micro-batches hands on, besides the weights."""

    statistics: tuple[Tensor, ...]
    metrics: tuple[Tensor, ...]
    accumulators: tuple[Tensor, ...] = ()
    """Gradients of an update that is not complete, where a loop has such."""


class MicroBatch:
    """Forward, loss, metrics and gradients of a model on one micro-batch."""

    def __init__(
        self, model: KerasModel, graph: ModelGraph | None, replicas: int, device: Device
    ) -> None:
        self.model = model
        self.graph = graph
        self.replicas = replicas
        self.instance = device.instance
        self._loss_scale_replicas = device.loss_scale_replicas
        self.keys = DrawKeys(model, device.seed)
        others = {id(item) for item in (*self.keys.variables, *model.metrics_variables)}
        self.statistics = ReplicaState(
            [item for item in model.non_trainable_variables if id(item) not in others],
            replicas,
        )
        self.metrics = ReplicaState(model.metrics_variables, replicas)
        self.observed = ObservedGradients(model)
        self.half = half_emulation(model, replicas, device, self.observed.wanted)
        self._average_instances = traced(self._assign_instance_means)

    @property
    def state(self) -> tuple[Variable, ...]:
        """The variables that the state of all replicas is stored in."""
        return self.statistics.stores + self.metrics.stores

    def load(self) -> LoopState:
        """Return the state that a loop starts with."""
        return LoopState(self.statistics.load(), self.metrics.load())

    def save(self, state: LoopState) -> None:
        """Store the state that a loop ends with."""
        self.statistics.save(state.statistics)
        self.metrics.save(state.metrics)

    def share_statistics(self) -> None:
        """Let every process have the mean of all; they call it equally often."""
        if self.instance.count > 1 and self.statistics.variables:
            with lost_instances_named(self.instance):
                self._average_instances()

    def _assign_instance_means(self) -> None:
        stores = [
            store
            for store in map(stored, self.statistics.variables)
            if store.dtype.is_floating
        ]
        values = [store.read_value() for store in stores]
        means = mean_over_instances(values, self.instance)
        for store, mean in zip(stores, means, strict=True):
            store.assign(mean)

    def scope(self, state: LoopState, replica: Tensor, counter: Tensor) -> Any:
        """Return a scope in which the model is that replica's."""
        return self.keyed_scope(
            self.statistics.of_replica(state.statistics, replica)
            + self.metrics.of_replica(state.metrics, replica),
            replica,
            counter,
        )

    @contextmanager
    def keyed_scope(
        self, mapping: list[tuple[Any, Any]], replica: Tensor, counter: Tensor
    ) -> Iterator[Any]:
        """Return a scope with these values of variables, and random draws keyed."""
        scope = keras.StatelessScope(
            mapping, collect_losses=True, initialize_variables=False
        )
        self.keys.enter(scope, counter)
        if self.half is not None:
            self.half.draws.enter(counter)
        with tracing_for(TracedReplica(replica, self.replicas, self.instance)), scope:
            yield scope

    def after(self, state: LoopState, replica: Tensor, scope: Any) -> LoopState:
        """Return the state after what happened in the scope."""
        return LoopState(
            self.statistics.updated(state.statistics, replica, scope),
            self.metrics.updated(state.metrics, replica, scope),
        )

    def forward(self, scope: Any, x: Structure, counter: Tensor, training: bool) -> Any:
        """Return the model's outputs."""
        if self.graph is None:
            if takes_training(self.model):
                return self.model(x, training=training)
            # Layers inside know what is done even if the model's `call` does not say.
            with entered(self.model) as context:
                context.set_value("training", training)
                return self.model(x)
        values = dict(zip(self.graph.inputs, self.graph.flat_inputs(x), strict=True))
        self.graph.run(
            self.graph.calls,
            values,
            training,
            lambda call: self.keys.before_call(scope, call, counter),
        )
        return self.graph.pack_outputs(values)

    def train(
        self, state: LoopState, data: Structure, replica: Tensor, counter: Tensor
    ) -> tuple[list[Any], Captured, LoopState]:
        """Return gradients of the trainable weights, captured ones, the new state."""
        model = self.model
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        with self.scope(state, replica, counter) as scope:
            with tf.GradientTape() as tape:
                y_pred = self.forward(scope, x, counter, training=True)
                loss = self.loss(scope, x, y, y_pred, sample_weight, training=True)
                scaled = self.scaled(loss)
            self.update_metrics(loss, x, y, y_pred, sample_weight)
        weights = [stored(weight) for weight in model.trainable_weights]
        with capturing() as captures:
            # `tape.gradient` returns IndexedSlices for embeddings, one row per lookup.
            # Keras optimizers apply rows that occur twice one after the other; the
            # device adds them first, so they are made dense here.
            gradients = [
                None if gradient is None else tf.convert_to_tensor(gradient)
                for gradient in tape.gradient(scaled, weights)
            ]
        self.observed.observe(model.trainable_weights, gradients)
        self.observed.observe_captured(captures.gradients)
        return gradients, captures.gradients, self.after(state, replica, scope)

    def apply(
        self,
        gradients: Sequence[Tensor],
        weights: Sequence[Variable],
        captured: Captured,
    ) -> None:
        """Update the weights, with gradients that the optimizer may have seen.

        Gradients are those of this process: they are summed over all that train.
        """
        if not weights:
            # Keras trains a model of operations alone too, and changes nothing.
            return
        gradients = sum_over_instances(gradients, self.instance)
        if self.half is not None:
            self.half.draws.enter_update(stored(self.model.optimizer.iterations))
        optimizer, pairs = self.model.optimizer, zip(gradients, weights, strict=True)
        for_all = tracing_for(TracedReplica(None, self.replicas, self.instance))
        with self.observed.applying(), for_all:
            optimizer.apply_gradients(pairs, **arguments_for(optimizer, captured))

    def test(
        self, state: LoopState, data: Structure, replica: Tensor, counter: Tensor
    ) -> LoopState:
        """Return the state after the metrics have seen the data."""
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        with self.scope(state, replica, counter) as scope:
            if type(self.model).test_step is not keras.Model.test_step:
                self.model.test_step(data)
            else:
                y_pred = self.forward(scope, x, counter, training=False)
                loss = self.loss(scope, x, y, y_pred, sample_weight, training=False)
                self.update_metrics(loss, x, y, y_pred, sample_weight)
        return self.after(state, replica, scope)

    def predict(
        self, state: LoopState, data: Structure, replica: Tensor, counter: Tensor
    ) -> Any:
        """Return the model's outputs for the data."""
        x, _, _ = unpack_x_y_sample_weight(data)
        with self.scope(state, replica, counter) as scope:
            if type(self.model).predict_step is not keras.Model.predict_step:
                return self.model.predict_step(data)
            return self.forward(scope, x, counter, training=False)

    def loss(
        self,
        scope: Any,
        x: Structure,
        y: Structure,
        y_pred: Structure,
        sample_weight: Structure,
        training: bool,
    ) -> Any:
        """Return the total loss in a scope, regularisation included."""
        for weight in self.model.trainable_weights:
            # Keras looks regularised weights up in the scope alone.
            if weight.regularizer is not None:
                scope.add_update((weight, tf.convert_to_tensor(stored(weight))))
        return total_loss(self.model, x, y, y_pred, sample_weight, training)

    def scaled(self, loss: Tensor) -> Any:
        """Return the loss whose gradient is wanted."""
        if self._loss_scale_replicas > 1:
            loss = loss / self._loss_scale_replicas
        return self.model.optimizer.scale_loss(loss)

    def update_metrics(
        self,
        loss: Tensor,
        x: Structure,
        y: Structure,
        y_pred: Structure,
        sample_weight: Structure,
    ) -> dict[str, Any]:
        """Let the loss tracker and the metrics see the micro-batch."""
        first = next(item for item in tree.flatten(x) if item is not None)
        loss_tracker(self.model).update_state(loss, sample_weight=tf.shape(first)[0])
        results: dict[str, Any] = self.model.compute_metrics(
            x, y, y_pred, sample_weight=sample_weight
        )
        return results

    def results(self, state: LoopState, replica: int) -> dict[str, Any]:
        """Return the metric values of one replica."""
        with keras.StatelessScope(
            self.metrics.of_replica(state.metrics, replica), initialize_variables=False
        ):
            results: dict[str, Any] = self.model.get_metrics_result()
        return results
