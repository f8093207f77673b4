"""Seeds of operations that draw random numbers, in the copies of a program."""

from __future__ import annotations

from typing import Any

from ipu_runtime.system.emulated_device import device_draws

DRAWN_SEED = 7_368_787
"""Distance between the random seeds of neighbouring replicas."""


def draws(operation: Any) -> bool:
    """Tell whether an operation draws random numbers that follow each other."""
    return operation.op_def.is_stateful and "seed2" in operation.node_def.attr


class DrawNumbers:
    """Numbers the operations of a graph that draw, the same for all replicas."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}

    def reseed(self, attributes: Any, name: str, replica: int) -> None:
        """Let an operation draw what no other does, and what the device's seed says.

        TensorFlow seeds it at random where neither it nor the device has a seed.
        """
        seed, device = attributes["seed"], device_draws()
        seeded = seed.i or attributes["seed2"].i
        if device.resets:
            seed.i += 1 + device.seed * DRAWN_SEED
            if not seeded:
                attributes["seed2"].i = self._number_of(name)
        if (seeded or device.resets) and not device.identical_replicas:
            attributes["seed2"].i += replica * DRAWN_SEED

    def _number_of(self, name: str) -> int:
        if name not in self._number:
            self._number[name] = device_draws().numbered
            device_draws().numbered += 1
        return self._number[name]
