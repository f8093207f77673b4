"""How an IPU estimator runs: `ipu.ipu_run_config`."""

from __future__ import annotations

from typing import Any, NamedTuple

from ipu_runtime.config import IPUConfig
from ipu_runtime.engine.describe.refusal import raise_for
from ipu_runtime.engine.watch.interception import notice
from ipu_runtime.estimators.tf_estimator import RunConfig as TensorFlowRunConfig
from ipu_runtime.plan.rules.count_rules import IPUS, STEPS, check_positive
from ipu_runtime.system.ipu_options import IpuOptions


class _IPURunConfigFields(NamedTuple):
    iterations_per_loop: int
    ipu_options: IPUConfig | IpuOptions | None
    num_replicas: int
    num_shards: int
    ordinal: int
    prefetch_depth: int | None
    compile_summary: bool
    autosharding: bool


class IPURunConfig(_IPURunConfigFields):
    """Loop length, devices and replicas.

    `compile_summary` and `autosharding` belong to the older API and have no effect on
    results.
    """

    __slots__ = ()

    def __new__(
        cls,
        iterations_per_loop: int = 1,
        ipu_options: IPUConfig | IpuOptions | None = None,
        num_replicas: int = 1,
        num_shards: int = 1,
        ordinal: int = 0,
        prefetch_depth: int | None = None,
        compile_summary: bool = False,
        autosharding: bool = False,
    ) -> IPURunConfig:
        notice("IPURunConfig")
        raise_for(
            [
                *check_positive("iterations_per_loop", iterations_per_loop, STEPS),
                *check_positive("num_replicas", num_replicas, IPUS),
                *check_positive("num_shards", num_shards, IPUS),
            ]
        )
        wanted = num_replicas * num_shards
        if ipu_options is None:
            if wanted > 1:
                raise ValueError(
                    f"{num_replicas} replicas with {num_shards} shards need "
                    f"{wanted} IPUs; `ipu_options` must then say which."
                )
        else:
            _check_devices(ipu_options, wanted, num_replicas, num_shards, ordinal)
        return super().__new__(
            cls,
            iterations_per_loop,
            ipu_options,
            num_replicas,
            num_shards,
            ordinal,
            prefetch_depth,
            compile_summary,
            autosharding,
        )

    @property
    def counts_pipeline_runs(self) -> bool:
        """Whether a pipeline's step is a whole run, as options of SDK 1.4 mean it."""
        options = self.ipu_options
        return (
            isinstance(options, IpuOptions)
            and options.creator_id == "create_ipu_config"
        )


def _check_devices(
    options: IPUConfig | IpuOptions, wanted: int, replicas: int, shards: int, at: int
) -> None:
    counts: list[int | None]
    if isinstance(options, IPUConfig):
        chosen, listed = options.auto_select_ipus, options.select_ipus
        counts = [chosen] if isinstance(chosen, int) else list(chosen)
        # Processes that share the device have their part of it.
        sharing = options.experimental.multi_replica_distribution.process_count
        counts = [count // max(1, sharing) for count in counts]
        if not counts:
            numbers = [listed] if isinstance(listed, int) else list(listed)
            counts = [None] * len(numbers)
    elif isinstance(options, IpuOptions):
        counts = [
            None if device.explicit else device.auto_count
            for device in options.device_config
        ]
    else:
        raise TypeError(
            "`ipu_options` must be an IPUConfig, but is "
            f"{options!r} ({type(options).__name__})."
        )
    if at >= len(counts) or at < 0:
        raise ValueError(
            f"`ordinal` is {at}. Only {len(counts)} device(s) available: select IPUs "
            "in `ipu_options`, with auto_select_ipus for example."
        )
    count = counts[at]
    if count is not None and count != wanted:
        raise ValueError(
            f"`num_replicas` ({replicas}) times `num_shards` ({shards}) is {wanted}, "
            f"but {count} IPU(s) are selected for device {at}."
        )


class RunConfig(TensorFlowRunConfig):
    """A `tf.estimator.RunConfig` with the IPU's part."""

    def __init__(
        self,
        ipu_run_config: IPURunConfig | None = None,
        master: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.master = master or ""
        self._ipu = IPURunConfig() if ipu_run_config is None else ipu_run_config

    @property
    def ipu_run_config(self) -> IPURunConfig:
        """The IPU's part."""
        return self._ipu
