"""How the API asks for the gradients of micro-batches to be put together."""

from __future__ import annotations

from enum import Enum


class GradientAccumulationReductionMethod(Enum):
    """What happens to the gradients that are accumulated before a weight update."""

    SUM = 0
    MEAN = 1
    RUNNING_MEAN = 2

    @property
    def sums(self) -> bool:
        """Whether micro-batches are summed, not averaged."""
        return self is type(self).SUM

    @classmethod
    def parse(
        cls, reduction_method: GradientAccumulationReductionMethod | str
    ) -> GradientAccumulationReductionMethod:
        """Return the method that a member or its name, in any case, stands for."""
        if isinstance(reduction_method, cls):
            return reduction_method
        if isinstance(reduction_method, str):
            member = cls.__members__.get(reduction_method.upper())
            if member is not None:
                return member
        valid = ", ".join(member.name for member in cls)
        raise ValueError(
            f"Cannot parse {reduction_method!r} as a gradient accumulation reduction "
            f"method; valid ones are {valid}, in any case."
        )
