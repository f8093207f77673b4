"""What every model that is created under an IPU strategy can do."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

from ipu_runtime.compat.model_habits import trainable_as_compiled
from ipu_runtime.engine.describe.model_options import (
    ModelOptions,
    ReplicatedMetricReductionMethod,
)
from ipu_runtime.engine.run import model_runner
from ipu_runtime.engine.watch.interception import notice
from ipu_runtime.frameworks.tensorflow_graphs import outside_of_graphs
from ipu_runtime.frameworks.types import KerasModel
from ipu_runtime.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_runtime.keras.extensions.extension_state import state_of
from ipu_runtime.keras.extensions.intercepted_settings import apply_intercepted
from ipu_runtime.keras.extensions.keras_arguments import with_arguments_of_keras
from ipu_runtime.keras.extensions.option_table import set_options
from ipu_runtime.keras.extensions.run_checks import check_runnable
from ipu_runtime.keras.extensions.run_results import (
    callbacks_with_traps,
    check_outputs,
    only_compiles,
    variables_restored,
    without_outfeed,
)
from ipu_runtime.keras.extensions.saved_options import restore_options, saved_options
from ipu_runtime.keras.extensions.stage_assignment import StageAssignment
from ipu_runtime.reports.program_report import report_program, reports_wanted
from ipu_runtime.strategies.strategy_stack import host_iterators
from ipu_runtime.system.device import Device
from ipu_runtime.system.emulated_device import device_for

logger = logging.getLogger("tensorflow")

ReductionMethod = GradientAccumulationReductionMethod | str


class KerasExtensionBase(StageAssignment):
    """Option methods, and running on the emulated device instead of the host."""

    def set_pipelining_options(
        self,
        gradient_accumulation_steps_per_replica: int | None = None,
        device_mapping: list[int] | None = None,
        accumulate_outfeed: bool | None = None,
        gradient_accumulation_reduction_method: ReductionMethod = "sum",
        **pipelining_kwargs: Any,
    ) -> None:
        """Set how a pipelined model runs; what is not given keeps its value.

        The reduction method and the further arguments are replaced by every call.
        """
        notice("model.set_pipelining_options")
        set_options(
            self,
            pipeline_accumulation=gradient_accumulation_steps_per_replica,
            device_mapping=device_mapping,
            accumulate_outfeed=accumulate_outfeed,
            pipelining_kwargs=pipelining_kwargs,
            accumulation_method=gradient_accumulation_reduction_method,
        )

    def set_gradient_accumulation_options(
        self,
        gradient_accumulation_steps_per_replica: int | None = None,
        gradient_accumulation_reduction_method: ReductionMethod = "sum",
        use_v2_gradient_accumulation_optimizer: bool = False,
        **gradient_accumulation_optimizer_kwargs: Any,
    ) -> None:
        """Set how a model that is not pipelined accumulates gradients."""
        # Both optimizers of the device do the same arithmetic.
        del use_v2_gradient_accumulation_optimizer
        notice("model.set_gradient_accumulation_options")
        set_options(
            self,
            accumulation=gradient_accumulation_steps_per_replica,
            accumulation_kwargs=gradient_accumulation_optimizer_kwargs,
            accumulation_method=gradient_accumulation_reduction_method,
        )

    def set_replication_options(
        self,
        replicated_metric_reduction_method: ReplicatedMetricReductionMethod
        | str = "NONE",
    ) -> None:
        """Set how the metrics of the replicas become one value."""
        notice("model.set_replication_options")
        set_options(self, metric_reduction=replicated_metric_reduction_method)

    def set_asynchronous_callbacks(self, asynchronous: bool = False) -> None:
        """Set whether batch callbacks are called for every step, as it ends."""
        set_options(self, asynchronous_callbacks=asynchronous)

    def set_infeed_queue_options(self, **kwargs: Any) -> None:
        """Set arguments of the queue that feeds the device."""
        set_options(self, infeed_kwargs=kwargs)

    def set_outfeed_queue_options(self, **kwargs: Any) -> None:
        """Set arguments of the queue that the device fills."""
        set_options(self, outfeed_kwargs=kwargs)

    @with_arguments_of_keras
    def fit(self, arguments: dict[str, Any]) -> Any:
        """Train on the emulated device; arguments and result as in Keras."""
        return self._run("fit", arguments)

    def train_on_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Train as Keras does, on the host; instances would do so each for itself."""
        strategy = state_of(self).strategy
        if strategy is not None and strategy.instance.count > 1:
            raise NotImplementedError(
                "The emulator trains on the device with `fit`, not with "
                "`train_on_batch`, which would leave each of the "
                f"{strategy.instance.count} instances with weights of its own."
            )
        return super().train_on_batch(*args, **kwargs)  # type: ignore[misc]

    @with_arguments_of_keras
    def evaluate(self, arguments: dict[str, Any]) -> Any:
        """Evaluate on the emulated device; arguments and result as in Keras."""
        return self._run("evaluate", arguments)

    @with_arguments_of_keras
    def predict(self, arguments: dict[str, Any]) -> Any:
        """Predict on the emulated device; arguments and result as in Keras."""
        return self._run("predict", arguments)

    def ipu_profile(self) -> Any:
        """Return the modelled step beside the measured one, after a run."""
        return model_runner.profile(self)

    def export_for_ipu_serving(
        self,
        export_dir: str,
        batch_size: int | None = None,
        output_names: Any = None,
        preprocessing_step: Any = None,
        preprocessing_step_signature: Any = None,
        postprocessing_step: Any = None,
        postprocessing_step_signature: Any = None,
        purge_export_dir: bool = False,
    ) -> Any:
        """Write a SavedModel of the predict function, and return the function."""
        # Few scripts export, and TensorFlow's saving machinery is slow to load.
        from ipu_runtime.keras.extensions.keras_serving import export_model

        return export_model(
            self,
            export_dir,
            batch_size,
            output_names,
            (preprocessing_step, preprocessing_step_signature),
            (postprocessing_step, postprocessing_step_signature),
            purge_export_dir,
        )

    def get_config(self) -> Any:
        """Return Keras' configuration with the IPU options in it."""
        config = super().get_config()  # type: ignore[misc]
        options = self._ipu_options
        if options.pipelining_kwargs or options.accumulation_kwargs:
            logger.info(
                "The pipelining and gradient accumulation keyword arguments of %s are "
                "not saved with it.",
                self.name,
            )
        return config | saved_options(self)

    @property
    def _ipu_options(self) -> ModelOptions:
        return state_of(self).options

    def restore_ipu_options(self, saved: Mapping[str, Any]) -> None:
        """Take over saved options; called at the end of construction."""
        restore_options(self, saved)

    def _run(self, method: str, arguments: dict[str, Any]) -> Any:
        self._trace_calls(arguments.get("x"), arguments.get("batch_size"))
        apply_intercepted(self, method, arguments)
        check_runnable(self, method)
        with outside_of_graphs(), self._running():
            device = self._device()
            arguments["callbacks"] = callbacks_with_traps(
                arguments.get("callbacks"), device.config
            )
            run = getattr(model_runner, method)
            trained = trainable_as_compiled(self) if method == "fit" else nullcontext()
            with trained:
                results = run(self, self._ipu_options, device, **arguments)
        if method == "predict":
            check_outputs(results, device.config)
        return without_outfeed(results, device.config)

    def _reset_ipu_programs(self) -> None:
        model_runner.drop_programs(self)

    def _device(self) -> Device:
        return device_for(state_of(self).strategy, self._ipu_options.shard_count)

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Re-enter the strategy; the engine's own reading of data is on the host."""
        strategy = state_of(self).strategy
        with ExitStack() as entered:
            if strategy is not None:
                entered.enter_context(strategy.scope())
            entered.enter_context(host_iterators())
            if only_compiles(self._device().config):
                entered.enter_context(variables_restored(self))
            yield
        _report_run(self)


def _report_run(model: KerasModel) -> None:
    """Start or continue the report of a program, if reports or events are wanted."""
    if not reports_wanted():
        return
    profile = model_runner.profile(model)
    reports = state_of(model).reports
    report = reports.get(profile.program)
    if report is None or report.plan != profile.plan:
        report = report_program(profile.program, profile.plan, profile.not_modelled)
        reports[profile.program] = report
    report.executed(
        executions=profile.executions,
        steps=profile.steps,
        host_s=profile.host_step_ms * profile.steps / 1e3,
    )
