"""`ipu.data`: data sets that feeds are made of."""

from ipu_runtime.installing.public_modules import submodules

__getattr__ = submodules(__name__)
