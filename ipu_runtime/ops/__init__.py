"""The operations of the emulated API."""

from ipu_runtime.installing.public_modules import submodules

__getattr__ = submodules(__name__)
