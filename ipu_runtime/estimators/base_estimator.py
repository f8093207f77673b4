"""What both IPU estimators do: train, evaluate, predict and export, in sessions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.engine.describe.model_scope import model_scope
from ipu_runtime.engine.describe.refusal import raise_for
from ipu_runtime.estimators.estimator_builder import EstimatorBuilder
from ipu_runtime.estimators.estimator_run import EstimatorRun
from ipu_runtime.estimators.host_results import (
    export_saved_model,
    mean_results,
    predictions_of,
    write_evaluation,
)
from ipu_runtime.estimators.model_directory import check_checkpoint
from ipu_runtime.estimators.sessions import (
    LoopEnd,
    TrainingWatch,
    restored_session,
    training_session,
)
from ipu_runtime.estimators.tf_estimator import ModeKeys
from ipu_runtime.frameworks.types import Structure
from ipu_runtime.plan.rules.count_rules import EPOCH, check_loops, check_positive
from ipu_runtime.system.instance_exchange import (
    lost_instances_named,
    wait_for_instances,
)
from ipu_runtime.system.without_effect import warn_without_effect

logger = logging.getLogger("tensorflow")
v1 = tf.compat.v1
StepContext = Any
"""TensorFlow's `MonitoredSession.StepContext`, which `run_step_fn` gives a function."""


class EstimatorBase(EstimatorBuilder):
    """An estimator without its way to turn a model function into a program."""

    stops_at_nan = True
    """Whether training ends with an error when the loss is not a number."""

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[Any] | None = None,
    ) -> EstimatorBase:
        """Train for `steps` more steps, or until `max_steps` are reached."""
        self._intercepted(ModeKeys.TRAIN)
        _check_train_steps(steps, max_steps, self._loop)
        watch = TrainingWatch(hooks or (), saving_listeners or (), self.stops_at_nan)
        with (
            self._graph(ModeKeys.TRAIN, input_fn) as planned,
            lost_instances_named(self._job.instance(ModeKeys.TRAIN)),
        ):
            program = planned.program
            global_step, loop_end = v1.train.get_global_step(), LoopEnd.build()
            with training_session(
                self._config,
                self._model_dir,
                program,
                loop_end.loss,
                watch,
                self._warm_start_from,
            ) as session:
                first = int(
                    session.run_step_fn(
                        lambda step_context: step_context.session.run(global_step)
                    )
                )
                last = max_steps if max_steps is not None else first + (steps or 0)
                if first >= last:
                    logger.info("Skipping training: max_steps %d is reached", last)
                    return self
                run = EstimatorRun(planned, "train", last - first, self._model_name)
                session.run_step_fn(
                    lambda step_context: run.prepare(step_context.session)
                )

                def one_loop(step_context: StepContext) -> None:
                    means = run.loop(step_context.session)
                    loss = mean_results(means, program.instance).get("loss", 0.0)
                    loop_end.run(step_context, loss, program.host.operation)

                while (
                    not session.should_stop()
                    and not run.stopped
                    and first + run.steps_done < last
                ):
                    session.run_step_fn(one_loop)
            # The first process has written its last checkpoint.
            wait_for_instances(program.instance)
            self._trained = True
            run.end()
            run.write_report()
        return self

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Return metrics, `loss` and `global_step` over `steps` batches."""
        if steps is None:
            raise ValueError("`steps` must be given for evaluate: a device cannot ask.")
        self._intercepted(ModeKeys.EVAL)
        raise_for(check_loops(steps, self._loop))
        with self._graph(ModeKeys.EVAL, input_fn) as planned:
            program = planned.program
            global_step = v1.train.get_global_step()
            path = checkpoint_path or self._checkpoint_to_read(program)
            session = restored_session(self._config, program, hooks or (), path)
            with session:
                run = EstimatorRun(planned, "evaluate", steps, self._model_name)
                session.run_step_fn(
                    lambda step_context: run.prepare(step_context.session)
                )
                losses: list[Any] = []

                def one_loop(step_context: StepContext) -> None:
                    means = run.loop(step_context.session)
                    if run.stopped:
                        return
                    values = step_context.run_with_hooks(dict(program.host.after_loop))
                    losses.append(values.get("loss", means.get("loss")))

                while run.steps_done < steps and not run.stopped:
                    session.run_step_fn(one_loop)
                if run.stopped:
                    return {}
                results = session.run_step_fn(
                    lambda step_context: step_context.session.run(
                        {**program.host.finals, "global_step": global_step}
                    )
                )
        run.write_report()
        step = results.pop("global_step")
        results["loss"] = _mean(losses)
        results = {**mean_results(results, program.instance), "global_step": step}
        run.end(results)
        if self._job.is_first:
            write_evaluation(self._model_dir, name, results)
        return results

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Sequence[str] | str | None = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
        num_predictions: int | None = None,
    ) -> Iterator[Any]:
        """Yield predictions one by one; nothing runs before the first is asked for."""
        self._intercepted(ModeKeys.PREDICT)
        with self._graph(ModeKeys.PREDICT, input_fn) as planned:
            program = planned.program
            path = checkpoint_path or self._checkpoint_to_read(program)
            session = restored_session(self._config, program, hooks or (), path)
        replicas = self._config.ipu_run_config.num_replicas
        run = EstimatorRun(planned, "predict", 0, self._model_name)
        given = 0
        try:

            def one_loop(step_context: StepContext) -> Structure:
                run.loop(step_context.session)
                return step_context.run_with_hooks(dict(program.host.after_loop))

            session.run_step_fn(lambda step_context: run.prepare(step_context.session))
            while True:
                batches = session.run_step_fn(one_loop)["predictions"]
                for item in predictions_of(
                    batches, replicas, predict_keys, yield_single_examples
                ):
                    if num_predictions is not None and given >= num_predictions:
                        return
                    yield item
                    given += 1
                if num_predictions is not None and given >= num_predictions:
                    return
        finally:
            run.end()
            session.close()

    def export_saved_model(
        self,
        export_dir_base: str,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Any = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        experimental_mode: str = ModeKeys.PREDICT,
    ) -> bytes:
        """Write the model for serving into a new directory, and return its path."""
        warn_without_effect(
            "export_saved_model",
            assets_extra=(assets_extra, None),
            as_text=(as_text, False),
            experimental_mode=(experimental_mode, ModeKeys.PREDICT),
        )
        path = checkpoint_path or self.latest_checkpoint()
        if not path:
            raise ValueError(f"There is no trained model in {self._model_dir}.")
        with tf.Graph().as_default():
            v1.train.create_global_step()
            receiver = serving_input_receiver_fn()
            with model_scope(self._config.tf_random_seed):
                outputs = self._serving_outputs(receiver.features)
            check_checkpoint(path, v1.global_variables())
            return export_saved_model(export_dir_base, receiver, outputs, path)

    def _serving_outputs(self, features: Any) -> Any:
        """Build the model without a loop; return its predictions."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot export its model for serving."
        )


def _check_train_steps(steps: int | None, max_steps: int | None, loop: int) -> None:
    """Raise unless exactly one of both is given, and whole loops of steps."""
    if steps is None and max_steps is None:
        raise ValueError("One of `steps` or `max_steps` must be given for train.")
    if steps is not None and max_steps is not None:
        raise ValueError("Only one of `steps` and `max_steps` may be given.")
    if steps is not None:
        raise_for(check_loops(steps, loop))
    else:
        raise_for(check_positive("max_steps", max_steps, EPOCH))


def _mean(losses: Sequence[Any]) -> float:
    return float(np.mean([np.mean(loss) for loss in losses]))
