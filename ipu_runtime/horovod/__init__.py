"""`ipu.horovod`: where PopDistStrategy was before SDK 3.0."""

from ipu_runtime.lazy_submodules import submodules

__getattr__ = submodules(__name__, "popdist_strategy")
