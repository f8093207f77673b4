"""`ipu.eager`: tapes that also capture gradients on their way."""

from ipu_runtime.installing.public_modules import submodules

__getattr__ = submodules(__name__)
