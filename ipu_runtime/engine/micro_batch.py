"""What one replica does with one micro-batch, without changing any variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from keras.src import tree
from keras.src.backend.common.stateless_scope import get_stateless_scope
from keras.src.trainers.data_adapters.data_adapter_utils import (
    unpack_x_y_sample_weight,
)

from ipu_runtime.engine.device import Device
from ipu_runtime.engine.draw_keys import DrawKeys
from ipu_runtime.engine.model_graph import ModelGraph, entered
from ipu_runtime.engine.replica_state import ReplicaState


@dataclass(frozen=True)
class Carry:
    """What a loop over micro-batches hands on, besides the weights."""

    statistics: tuple[Any, ...]
    metrics: tuple[Any, ...]


class MicroBatch:
    """Forward, loss, metrics and gradients of a model on one micro-batch."""

    def __init__(
        self, model: Any, graph: ModelGraph | None, replicas: int, device: Device
    ) -> None:
        self.model = model
        self.graph = graph
        self.replicas = replicas
        self._loss_scale_replicas = device.loss_scale_replicas
        self.keys = DrawKeys(model, device.seed)
        others = {id(item) for item in (*self.keys.variables, *model.metrics_variables)}
        self.statistics = ReplicaState(
            [item for item in model.non_trainable_variables if id(item) not in others],
            replicas,
        )
        self.metrics = ReplicaState(model.metrics_variables, replicas)

    def load(self) -> Carry:
        """Return the state that a loop starts with."""
        return Carry(self.statistics.load(), self.metrics.load())

    def save(self, carry: Carry) -> None:
        """Store the state that a loop ends with."""
        self.statistics.save(carry.statistics)
        self.metrics.save(carry.metrics)

    def scope(self, carry: Carry, replica: Any, counter: Any) -> Any:
        """Return a scope in which the model is that replica's."""
        return self.keyed_scope(
            self.statistics.of_replica(carry.statistics, replica)
            + self.metrics.of_replica(carry.metrics, replica),
            counter,
        )

    def keyed_scope(self, mapping: list[tuple[Any, Any]], counter: Any) -> Any:
        """Return a scope with these values of variables, and random draws keyed."""
        scope = keras.StatelessScope(
            mapping, collect_losses=True, initialize_variables=False
        )
        self.keys.enter(scope, counter)
        return scope

    def after(self, carry: Carry, replica: Any, scope: Any) -> Carry:
        """Return the state after what happened in the scope."""
        return Carry(
            self.statistics.updated(carry.statistics, replica, scope),
            self.metrics.updated(carry.metrics, replica, scope),
        )

    def forward(self, scope: Any, x: Any, counter: Any, training: bool) -> Any:
        """Return the model's outputs."""
        if self.graph is None:
            if self.model._call_has_training_arg:
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
        self, carry: Carry, data: Any, replica: Any, counter: Any
    ) -> tuple[list[Any], Carry]:
        """Return the gradients of the trainable weights, and the new state."""
        model = self.model
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        with self.scope(carry, replica, counter) as scope:
            with tf.GradientTape() as tape:
                y_pred = self.forward(scope, x, counter, training=True)
                loss = self.loss(x, y, y_pred, sample_weight, training=True)
                scaled = self.scaled(loss)
            self.update_metrics(loss, x, y, y_pred, sample_weight)
        weights = [weight._value for weight in model.trainable_weights]
        gradients = tape.gradient(scaled, weights)
        return gradients, self.after(carry, replica, scope)

    def test(self, carry: Carry, data: Any, replica: Any, counter: Any) -> Carry:
        """Return the state after the metrics have seen the data."""
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        with self.scope(carry, replica, counter) as scope:
            if type(self.model).test_step is not keras.Model.test_step:
                self.model.test_step(data)
            else:
                y_pred = self.forward(scope, x, counter, training=False)
                loss = self.loss(x, y, y_pred, sample_weight, training=False)
                self.update_metrics(loss, x, y, y_pred, sample_weight)
        return self.after(carry, replica, scope)

    def predict(self, carry: Carry, data: Any, replica: Any, counter: Any) -> Any:
        """Return the model's outputs for the data."""
        x, _, _ = unpack_x_y_sample_weight(data)
        with self.scope(carry, replica, counter) as scope:
            if type(self.model).predict_step is not keras.Model.predict_step:
                return self.model.predict_step(data)
            return self.forward(scope, x, counter, training=False)

    def loss(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any, training: bool
    ) -> Any:
        """Return the total loss, regularisation included."""
        scope = get_stateless_scope()
        for weight in self.model.trainable_weights:
            # Keras looks regularised weights up in the scope alone.
            if weight.regularizer is not None:
                scope.add_update((weight, tf.convert_to_tensor(weight._value)))
        return self.model._compute_loss(
            x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training
        )

    def scaled(self, loss: Any) -> Any:
        """Return the loss whose gradient is wanted."""
        if self._loss_scale_replicas > 1:
            loss = loss / self._loss_scale_replicas
        return self.model.optimizer.scale_loss(loss)

    def update_metrics(
        self, loss: Any, x: Any, y: Any, y_pred: Any, sample_weight: Any
    ) -> dict[str, Any]:
        """Let the loss tracker and the metrics see the micro-batch."""
        first = next(item for item in tree.flatten(x) if item is not None)
        self.model._loss_tracker.update_state(loss, sample_weight=tf.shape(first)[0])
        results: dict[str, Any] = self.model.compute_metrics(
            x, y, y_pred, sample_weight=sample_weight
        )
        return results

    def results(self, carry: Carry, replica: int) -> dict[str, Any]:
        """Return the metric values of one replica."""
        with keras.StatelessScope(
            self.metrics.of_replica(carry.metrics, replica), initialize_variables=False
        ):
            results: dict[str, Any] = self.model.get_metrics_result()
        return results
