"""How gradients of several micro-batches become one: `ipu.gradient_accumulation`."""

from __future__ import annotations

from enum import Enum


class GradientAccumulationReductionMethod(Enum):
    """What happens to the gradients that are accumulated before a weight update."""

    SUM = 0
    MEAN = 1
    RUNNING_MEAN = 2

    @classmethod
    def parse(
        cls, value: GradientAccumulationReductionMethod | str
    ) -> GradientAccumulationReductionMethod:
        """Return the method that a member or its name, in any case, stands for."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and value.upper() in cls.__members__:
            return cls[value.upper()]
        valid = ", ".join(member.name for member in cls)
        raise ValueError(
            f"Cannot parse {value!r} as a gradient accumulation reduction method; "
            f"valid ones are {valid}, in any case."
        )
