"""`ipu.ipu_multi_worker_strategy`: one IPU device for each worker of a cluster."""

from __future__ import annotations

from typing import Any

from ipu_runtime.distributed.popdist_strategy import PopDistStrategy


class IPUMultiWorkerStrategyV1(PopDistStrategy):
    """Trains with the workers of a cluster, each of which has a device of its own.

    Where variables live has no effect on results.
    """

    allows_pipeline_stages = True

    def __init__(
        self,
        cluster_resolver: Any,
        ipu_device: str = "/device:IPU:0",
        variables_on_host: bool = False,
    ) -> None:
        super().__init__(ipu_device)
        self.variables_on_host = variables_on_host
        spec = cluster_resolver.cluster_spec()
        workers = sum(spec.num_tasks(job) for job in spec.jobs if job != "evaluator")
        if workers > 1 and workers != self.instance.count:
            raise ValueError(
                f"The cluster has {workers} workers, but this is one of "
                f"{self.instance.count} process(es) that are connected: set TF_CONFIG "
                "in each of them, or start them with poprun --num-instances "
                f"{workers}."
            )

    @property
    def num_replicas_in_sync(self) -> int:
        """The workers."""
        return self.instance.count


IPUMultiWorkerStrategy = IPUMultiWorkerStrategyV1
