"""The operations of the emulated API."""

from ipu_runtime.lazy_submodules import submodules
from ipu_runtime.public_modules import OPS_MODULES

__getattr__ = submodules(__name__, *OPS_MODULES)
