"""What an estimator is made of, and how it becomes a program of the device."""

from __future__ import annotations

import copy
import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from ipu_runtime.config import configure_ipu_system
from ipu_runtime.engine.describe.placement import Placement, placed_on
from ipu_runtime.engine.watch.interception import (
    Program,
    announce,
    is_intercepted,
)
from ipu_runtime.engine.watch.observer import current_observer
from ipu_runtime.estimators.estimator_job import EstimatorJob
from ipu_runtime.estimators.estimator_loop import (
    EstimatorProgram,
    LoopContents,
    build_program,
)
from ipu_runtime.estimators.estimator_run import PlannedLoop, plan_loop
from ipu_runtime.estimators.intercepted_run import (
    CALLS,
    config_for_ipus,
    intercepted_config,
)
from ipu_runtime.estimators.model_directory import newest_checkpoint
from ipu_runtime.estimators.tf_estimator import ModeKeys, WarmStartSettings
from ipu_runtime.estimators.user_functions import call_input_fn
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_run_config import RunConfig
from ipu_runtime.system.emulated_device import device_for, local_ipus

logger = logging.getLogger("tensorflow")
v1 = tf.compat.v1
_PROGRAM_NAMES = {
    ModeKeys.TRAIN: "training",
    ModeKeys.EVAL: "evaluation",
    ModeKeys.PREDICT: "prediction",
}


class EstimatorBuilder:
    """Keeps what a user gives, and builds the program of a mode in a graph."""

    api = ""
    """The estimator as experiments name it."""

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
        self._job = EstimatorJob(config)
        if params is not None and not isinstance(params, dict):
            raise ValueError(f"`params` must be a dict, but is {params!r}.")
        if "input_fn" in (params or {}):
            raise ValueError("`params` must not have the key 'input_fn': reserved.")
        self._model_fn = model_fn
        self._config = config
        self._params = copy.deepcopy(params or {})
        self._model_dir = _chosen_model_dir(model_dir, config)
        self._warm_start_from = warm_start_from
        self._trained = False

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

    @property
    def _model_name(self) -> str:
        return getattr(self._model_fn, "__name__", type(self._model_fn).__name__)

    def latest_checkpoint(self) -> str | None:
        """Return the newest checkpoint of the model directory."""
        return newest_checkpoint(self._model_dir)

    def _checkpoint_to_read(self, program: EstimatorProgram) -> str | None:
        path = self.latest_checkpoint()
        alone = program.instance.count == 1
        if path is None and alone and self._trained and not self._job.is_first:
            raise ValueError(
                f"model_dir {self._model_dir} has no checkpoint: instance 0 has "
                "written it. Let all instances have one model_dir, or evaluate and "
                "predict in instance 0 alone."
            )
        return path

    def get_variable_names(self) -> list[str]:
        """Return the names of the variables in the newest checkpoint."""
        return [name for name, _ in tf.train.list_variables(self._model_dir)]

    def get_variable_value(self, name: str) -> Any:
        """Return a variable of the newest checkpoint as an array."""
        return tf.train.load_variable(self._model_dir, name)

    def _contents(self, mode: str, infeed: IPUInfeedQueue) -> LoopContents:
        """Return what an iteration of a mode's loop consists of."""
        raise NotImplementedError

    def _mode_params(self, mode: str) -> Mapping[str, Any]:
        del mode
        return self._params

    @contextmanager
    def _graph(self, mode: str, input_fn: Callable[..., Any]) -> Iterator[PlannedLoop]:
        """Configure the device and build a program in a graph of its own."""
        self._configure()
        run_config = self._config.ipu_run_config
        observer, name = current_observer(), _PROGRAM_NAMES[mode]
        start = time.perf_counter()
        if observer is not None:
            observer.compiling(name)
        placement = Placement(
            f"/device:IPU:{run_config.ordinal}",
            run_config.num_replicas,
            joined_instance=self._job.instance(mode),
            compiling=True,
        )
        with tf.Graph().as_default():
            # Loops change variables in place, which only resources let them.
            v1.get_variable_scope().set_use_resource(True)
            if self._config.tf_random_seed is not None:
                v1.set_random_seed(self._config.tf_random_seed)
            v1.train.create_global_step()
            params = self._mode_params(mode)
            context = self._job.input_context(mode)
            dataset = call_input_fn(input_fn, mode, params, self._config, context)
            infeed = IPUInfeedQueue(
                dataset, run_config.ordinal, run_config.prefetch_depth
            )
            v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, infeed.initializer)
            with placed_on(placement), self._job.reductions(mode):
                program = build_program(
                    lambda: self._contents(mode, infeed), self._config
                )
            device = device_for(None, run_config.num_shards)
            loop = plan_loop(
                program,
                name,
                start,
                device,
                infeed.element_spec,
                self.api,
            )
            planned = loop.planned
            announce(Program(CALLS[mode], self.api, planned.request, planned.reason))
            yield loop

    def _intercepted(self, mode: str) -> None:
        """Let somebody outside of the script change the settings of a run."""
        if is_intercepted():
            self._config = intercepted_config(self._config, mode)

    def _check_replicas_free(self, changed: bool) -> None:
        """Raise if something was worked out for the replicas as they were."""

    def _configure(self) -> None:
        run_config = self._config.ipu_run_config
        if run_config.ipu_options is None:
            return
        configure_ipu_system(run_config.ipu_options)
        wanted = run_config.num_replicas * run_config.num_shards
        available = local_ipus(run_config.ordinal)
        if is_intercepted() and not available % run_config.num_shards:
            # Whoever selects other IPUs means other replicas.
            self._check_replicas_free(available != wanted)
            self._config = config_for_ipus(self._config, available)
            return
        if wanted != available:
            raise ValueError(
                f"`num_replicas` times `num_shards` is {wanted}, but device "
                f"{run_config.ordinal} has {available} IPU(s)."
            )


def _chosen_model_dir(model_dir: str | None, config: RunConfig) -> str:
    """Return the one directory that was named, or a new temporary one."""
    chosen = str(model_dir) if model_dir is not None else None
    if chosen and config.model_dir and chosen != config.model_dir:
        raise ValueError(
            f"`model_dir` is {chosen}, but the run configuration says "
            f"{config.model_dir}; give one of them."
        )
    chosen = chosen or config.model_dir
    if chosen is None:
        chosen = tempfile.mkdtemp()
        logger.warning("Using temporary folder as model directory: %s", chosen)
    return chosen
