"""`ipu_tensorflow_addons.keras.optimizers`: states and sums in chosen types."""

from ipu_runtime.addons.keras.optimizers.adam_optimizer import AdamIpuOptimizer
from ipu_runtime.addons.keras.optimizers.ipu_optimizer_base import IpuOptimizerBase
from ipu_runtime.addons.keras.optimizers.lamb_optimizer import LAMBIpuOptimizer
from ipu_runtime.addons.keras.optimizers.sgd_optimizer import SGDIpuOptimizer

__all__ = [
    "AdamIpuOptimizer",
    "IpuOptimizerBase",
    "LAMBIpuOptimizer",
    "SGDIpuOptimizer",
]
