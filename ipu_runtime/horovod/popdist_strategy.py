"""`ipu.horovod.popdist_strategy`: the same class under its older name."""

from ipu_runtime.distributed.popdist_strategy import PopDistStrategy

__all__ = ["PopDistStrategy"]
