"""`ipu.distributed.popdist_strategy`: a strategy whose gradients are averaged."""

from __future__ import annotations

from ipu_runtime import popdist
from ipu_runtime.config import IPUConfig
from ipu_runtime.device_state import current_state
from ipu_runtime.ipu_strategy import IPUStrategyV1


class PopDistStrategy(IPUStrategyV1):
    """Divides losses by the number of replicas; the emulator has one process only."""

    allows_pipeline_stages = False

    def __init__(
        self,
        ipu_device: str = "/device:IPU:0",
        add_ipu_cross_replica_reductions: bool = True,
        enable_dataset_iterators: bool = True,
        enable_keras_extensions: bool = True,
    ) -> None:
        super().__init__(
            ipu_device,
            enable_dataset_iterators=enable_dataset_iterators,
            enable_keras_extensions=enable_keras_extensions,
        )
        if popdist.getNumInstances() > 1:
            raise NotImplementedError(
                "The emulator runs a distributed job as one process: start the script "
                f"once, not with poprun in {popdist.getNumInstances()} instances."
            )
        self._reduce_on_ipu = add_ipu_cross_replica_reductions

    @property
    def num_replicas_in_sync(self) -> int:
        """Replicas of all processes."""
        if popdist.isPopdistEnvSet():
            return popdist.getNumTotalReplicas()
        return current_state().ipus(self.ipu_device)

    def loss_scale(self, local_replicas: int) -> int:
        """Divide losses by all replicas, so that summed gradients are a mean."""
        return local_replicas if self._reduce_on_ipu else 1

    def update_ipu_config(self, config: IPUConfig) -> None:
        """Put this process's place in the job into a configuration."""
        distribution = config.experimental.multi_replica_distribution
        distribution.process_count = popdist.getNumInstances()
        distribution.process_index = popdist.getInstanceIndex()
