"""What every model that is created under an IPU strategy can do."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import keras

from ipu_runtime.emulated_device import device_for
from ipu_runtime.engine import model_runner
from ipu_runtime.engine.device import Device
from ipu_runtime.engine.model_options import (
    ModelOptions,
    ReplicatedMetricReductionMethod,
)
from ipu_runtime.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_runtime.keras.extensions import option_checks as checks
from ipu_runtime.keras.extensions.precompiling import only_compiles, variables_kept
from ipu_runtime.keras.extensions.run_checks import check_runnable
from ipu_runtime.keras.extensions.run_report import report_run
from ipu_runtime.keras.extensions.saving import (
    options_from_config,
    options_to_config,
)
from ipu_runtime.keras.extensions.stage_assignment import StageAssignment
from ipu_runtime.keras.extensions.state import state_of
from ipu_runtime.keras.extensions.synthetic_results import without_outfeed
from ipu_runtime.keras.extensions.traps import callbacks_with_traps, check_finite
from ipu_runtime.strategy_stack import host_iterators

logger = logging.getLogger("tensorflow")

ReductionMethod = GradientAccumulationReductionMethod | str


class BaseExtension(StageAssignment):
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
        checks.check_accumulation(gradient_accumulation_steps_per_replica)
        checks.check_device_mapping(device_mapping)
        checks.check_pipelining_kwargs(pipelining_kwargs)
        method = GradientAccumulationReductionMethod.parse(
            gradient_accumulation_reduction_method
        )
        options = self._ipu_options
        if gradient_accumulation_steps_per_replica is not None:
            options.pipeline_accumulation = gradient_accumulation_steps_per_replica
        if device_mapping is not None:
            options.device_mapping = tuple(device_mapping)
        if accumulate_outfeed is not None:
            options.accumulate_outfeed = accumulate_outfeed
        options.accumulation_method = method
        defaults = {"gradient_accumulation_for_captured_grads": False}
        options.pipelining_kwargs = defaults | pipelining_kwargs
        self._reset_ipu_programs()

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
        checks.check_accumulation(gradient_accumulation_steps_per_replica)
        checks.check_accumulation_kwargs(gradient_accumulation_optimizer_kwargs)
        method = GradientAccumulationReductionMethod.parse(
            gradient_accumulation_reduction_method
        )
        options = self._ipu_options
        if gradient_accumulation_steps_per_replica is not None:
            options.accumulation = gradient_accumulation_steps_per_replica
        options.accumulation_method = method
        options.accumulation_kwargs = gradient_accumulation_optimizer_kwargs
        self._reset_ipu_programs()

    def set_replication_options(
        self,
        replicated_metric_reduction_method: ReplicatedMetricReductionMethod
        | str = "NONE",
    ) -> None:
        """Set how the metrics of the replicas become one value."""
        self._ipu_options.metric_reduction = checks.parse_metric_reduction(
            replicated_metric_reduction_method
        )

    def set_asynchronous_callbacks(self, asynchronous: bool = False) -> None:
        """Set whether batch callbacks are called for every step, as it ends."""
        self._ipu_options.asynchronous_callbacks = asynchronous

    def set_infeed_queue_options(self, **kwargs: Any) -> None:
        """Set arguments of the queue that feeds the device."""
        checks.check_infeed_kwargs(kwargs)
        self._ipu_options.infeed_kwargs = kwargs
        self._reset_ipu_programs()

    def set_outfeed_queue_options(self, **kwargs: Any) -> None:
        """Set arguments of the queue that the device fills."""
        checks.check_outfeed_kwargs(kwargs)
        self._ipu_options.outfeed_kwargs = kwargs
        self._reset_ipu_programs()

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: Any = 1,
        **keras_two: Any,
    ) -> Any:
        """Train on the emulated device; arguments and result as in Keras."""
        _drop_keras_two_arguments("fit", keras_two)
        self._prepare("fit", x, batch_size)
        with self._running():
            results = model_runner.fit(
                self,
                self._ipu_options,
                self._device(),
                x=x,
                y=y,
                batch_size=batch_size,
                epochs=epochs,
                verbose=verbose,
                callbacks=callbacks_with_traps(callbacks, self._device().config),
                validation_split=validation_split,
                validation_data=validation_data,
                shuffle=shuffle,
                class_weight=class_weight,
                sample_weight=sample_weight,
                initial_epoch=initial_epoch,
                steps_per_epoch=steps_per_epoch,
                validation_steps=validation_steps,
                validation_batch_size=validation_batch_size,
                validation_freq=validation_freq,
            )
        return without_outfeed(results, self._device().config)

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
        **keras_two: Any,
    ) -> Any:
        """Evaluate on the emulated device; arguments and result as in Keras."""
        _drop_keras_two_arguments("evaluate", keras_two)
        self._prepare("evaluate", x, batch_size)
        with self._running():
            results = model_runner.evaluate(
                self,
                self._ipu_options,
                self._device(),
                x=x,
                y=y,
                batch_size=batch_size,
                verbose=verbose,
                sample_weight=sample_weight,
                steps=steps,
                callbacks=callbacks_with_traps(callbacks, self._device().config),
                return_dict=return_dict,
            )
        return without_outfeed(results, self._device().config)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
        **keras_two: Any,
    ) -> Any:
        """Predict on the emulated device; arguments and result as in Keras."""
        _drop_keras_two_arguments("predict", keras_two)
        self._prepare("predict", x, batch_size)
        with self._running():
            results = model_runner.predict(
                self,
                self._ipu_options,
                self._device(),
                x=x,
                batch_size=batch_size,
                verbose=verbose,
                steps=steps,
                callbacks=callbacks,
            )
        outputs = enumerate(keras.tree.flatten(results))
        named = {f"output {index}": output for index, output in outputs}
        check_finite(named, self._device().config)
        return without_outfeed(results, self._device().config)

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
        from ipu_runtime.keras.serving import export_model

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
        return config | options_to_config(options) | self._assignment_config()

    @property
    def _ipu_options(self) -> ModelOptions:
        return state_of(self).options

    def _after_construction(self, saved: Mapping[str, Any]) -> None:
        """Take over saved options, and the stages that the layers are tagged with."""
        options_from_config(self._ipu_options, saved)
        self._restore_assignment(saved)

    def _prepare(self, method: str, x: Any, batch_size: int | None) -> None:
        self._trace_calls(x, batch_size)
        check_runnable(self, method)

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
                entered.enter_context(variables_kept(self))
            yield
        report_run(self)


def _drop_keras_two_arguments(method: str, arguments: Mapping[str, Any]) -> None:
    unknown = arguments.keys() - {"max_queue_size", "workers", "use_multiprocessing"}
    if unknown:
        raise TypeError(
            f"{method}() got an unexpected keyword argument {sorted(unknown)[0]!r}"
        )
