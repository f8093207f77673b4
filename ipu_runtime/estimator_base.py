"""What both IPU estimators share: directories, sessions, checkpoints and loops."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from ipu_runtime.config import configure_ipu_system
from ipu_runtime.device_state import current_state
from ipu_runtime.emulated_device import device_for
from ipu_runtime.engine.checkpoints import check_checkpoint
from ipu_runtime.engine.estimator_program import EstimatorProgram, PieceRunner
from ipu_runtime.engine.model_scope import model_scope
from ipu_runtime.engine.observer import current_observer
from ipu_runtime.engine.placement import Placement, placed_on
from ipu_runtime.engine.program_model import ProgramModel, model_program
from ipu_runtime.estimator_export import export_saved_model
from ipu_runtime.estimator_functions import call_input_fn
from ipu_runtime.estimator_results import predictions_of, write_evaluation
from ipu_runtime.estimator_rules import (
    check_multiple,
    check_train_steps,
    choose_model_dir,
)
from ipu_runtime.estimator_sessions import (
    LoopEnd,
    TrainingWatch,
    restored_session,
    training_session,
)
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_run_config import RunConfig
from ipu_runtime.tf_estimator import ModeKeys, WarmStartSettings

logger = logging.getLogger("tensorflow")
v1 = tf.compat.v1
_PROGRAM_NAMES = {
    ModeKeys.TRAIN: "training",
    ModeKeys.EVAL: "evaluation",
    ModeKeys.PREDICT: "prediction",
}


class EstimatorBase:
    """An estimator without its way to turn a model function into a program."""

    _stops_at_nan = True

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: str | None,
        config: RunConfig | None,
        params: Mapping[str, Any] | None,
        warm_start_from: str | WarmStartSettings | None,
    ) -> None:
        if not isinstance(config, RunConfig):
            raise ValueError(
                "`config` must be an ipu_run_config.RunConfig, but is "
                f"{config!r} ({type(config).__name__})."
            )
        if params is not None and not isinstance(params, dict):
            raise ValueError(f"`params` must be a dict, but is {params!r}.")
        if "input_fn" in (params or {}):
            raise ValueError("`params` must not have the key 'input_fn': reserved.")
        self._model_fn = model_fn
        self._config = config
        self._params = copy.deepcopy(params or {})
        self._model_dir = choose_model_dir(model_dir, config)
        self._warm_start_from = warm_start_from

    @property
    def model_dir(self) -> str:
        """Where checkpoints and summaries are."""
        return self._model_dir

    @property
    def config(self) -> RunConfig:
        """The run configuration."""
        return self._config

    @property
    def params(self) -> dict[str, Any]:
        """A copy of the parameters of the model function."""
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Callable[..., Any]:
        """The model function."""
        return self._model_fn

    @property
    def _loop(self) -> int:
        return self._config.ipu_run_config.iterations_per_loop

    def latest_checkpoint(self) -> str | None:
        """Return the newest checkpoint of the model directory."""
        return tf.train.latest_checkpoint(self._model_dir)

    def get_variable_names(self) -> list[str]:
        """Return the names of the variables in the newest checkpoint."""
        return [name for name, _ in tf.train.list_variables(self._model_dir)]

    def get_variable_value(self, name: str) -> Any:
        """Return a variable of the newest checkpoint as an array."""
        return tf.train.load_variable(self._model_dir, name)

    def _build(self, mode: str, infeed: IPUInfeedQueue) -> EstimatorProgram:
        """Build the program of a mode in the current graph."""
        raise NotImplementedError

    def _units_per_loop(self, program: EstimatorProgram) -> int:
        return self._loop // program.steps_per_unit

    def _mode_params(self, mode: str) -> Mapping[str, Any]:
        del mode
        return self._params

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[Any] | None = None,
    ) -> EstimatorBase:
        """Train for `steps` more steps, or until `max_steps` are reached."""
        check_train_steps(steps, max_steps, self._loop)
        watch = TrainingWatch(hooks or (), saving_listeners or (), self._stops_at_nan)
        with self._graph(ModeKeys.TRAIN, input_fn) as (program, modelled):
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
                runner = PieceRunner(
                    program, "train", last - first, modelled.ipu_step_us
                )
                session.run_step_fn(
                    lambda step_context: runner.warm_up(step_context.session)
                )
                modelled.ready()

                def one_loop(step_context: Any) -> None:
                    before = runner.steps_done
                    means = runner.run(
                        step_context.session, self._units_per_loop(program)
                    )
                    loop_end.run(
                        step_context,
                        means.get("loss", 0.0),
                        runner.steps_done - before,
                        program.host_operation,
                    )

                while (
                    not session.should_stop()
                    and not runner.stopped
                    and first + runner.steps_done < last
                ):
                    session.run_step_fn(one_loop)
            modelled.executed(runner.loops, runner.batches_done, runner.seconds)
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
        check_multiple(steps, self._loop)
        with self._graph(ModeKeys.EVAL, input_fn) as (program, modelled):
            global_step = v1.train.get_global_step()
            path = checkpoint_path or self.latest_checkpoint()
            session = restored_session(self._config, program, hooks or (), path)
            with session:
                runner = PieceRunner(program, "evaluate", steps, modelled.ipu_step_us)
                session.run_step_fn(
                    lambda step_context: runner.warm_up(step_context.session)
                )
                modelled.ready()
                losses: list[Any] = []

                def one_loop(step_context: Any) -> None:
                    means = runner.run(
                        step_context.session, self._units_per_loop(program)
                    )
                    if runner.stopped:
                        return
                    values = step_context.run_with_hooks(dict(program.after_loop))
                    losses.append(values.get("loss", means.get("loss")))

                while runner.steps_done < steps and not runner.stopped:
                    session.run_step_fn(one_loop)
                if runner.stopped:
                    return {}
                results = session.run_step_fn(
                    lambda step_context: step_context.session.run(
                        {**program.finals, "global_step": global_step}
                    )
                )
        modelled.executed(runner.loops, runner.batches_done, runner.seconds)
        results["loss"] = _mean(losses)
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
        with self._graph(ModeKeys.PREDICT, input_fn) as (program, modelled):
            path = checkpoint_path or self.latest_checkpoint()
            session = restored_session(self._config, program, hooks or (), path)
        replicas = self._config.ipu_run_config.num_replicas
        runner = PieceRunner(program, "predict", 0, modelled.ipu_step_us)
        given = 0
        try:
            while True:

                def one_loop(step_context: Any) -> Any:
                    runner.run(step_context.session, self._units_per_loop(program))
                    return step_context.run_with_hooks(dict(program.after_loop))

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
            session.close()

    def export_saved_model(
        self,
        export_dir_base: str,
        serving_input_receiver_fn: Callable[[], Any],
        checkpoint_path: str | None = None,
    ) -> bytes:
        """Write the model for serving into a new directory, and return its path."""
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

    @contextmanager
    def _graph(
        self, mode: str, input_fn: Callable[..., Any]
    ) -> Iterator[tuple[EstimatorProgram, ProgramModel]]:
        """Configure the device and build a program in a graph of its own."""
        self._configure()
        run_config = self._config.ipu_run_config
        observer, name = current_observer(), _PROGRAM_NAMES[mode]
        start = time.perf_counter()
        if observer is not None:
            observer.compiling(name)
        placement = Placement(
            f"/device:IPU:{run_config.ordinal}", run_config.num_replicas, compiling=True
        )
        with tf.Graph().as_default():
            if self._config.tf_random_seed is not None:
                v1.set_random_seed(self._config.tf_random_seed)
            v1.train.create_global_step()
            params = self._mode_params(mode)
            dataset = call_input_fn(input_fn, mode, params, self._config)
            infeed = IPUInfeedQueue(
                dataset, run_config.ordinal, run_config.prefetch_depth
            )
            v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, infeed.initializer)
            with placed_on(placement):
                program = self._build(mode, infeed)
            loop_batches = self._units_per_loop(program) * program.batches_per_unit
            modelled = model_program(
                program,
                name,
                infeed.element_spec,
                device_for(None, run_config.num_shards),
                loop_batches,
                start,
            )
            yield program, modelled

    def _configure(self) -> None:
        run_config = self._config.ipu_run_config
        if run_config.ipu_options is None:
            return
        configure_ipu_system(run_config.ipu_options)
        wanted = run_config.num_replicas * run_config.num_shards
        available = current_state().ipus(run_config.ordinal)
        if wanted != available:
            raise ValueError(
                f"`num_replicas` times `num_shards` is {wanted}, but device "
                f"{run_config.ordinal} has {available} IPU(s)."
            )


def _mean(losses: Sequence[Any]) -> float:
    parts = [float(tf.experimental.numpy.mean(loss)) for loss in losses]
    return sum(parts) / len(parts)
