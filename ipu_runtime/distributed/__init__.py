"""`ipu.distributed`: training with several processes."""

from ipu_runtime.lazy_submodules import submodules

__getattr__ = submodules(__name__, "popdist_strategy")
