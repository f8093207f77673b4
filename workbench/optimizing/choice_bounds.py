"""What choices cannot be below in what an aim wants least of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ipu_runtime.plan.placements import PLACEMENTS
from workbench.optimizing.bounds import LayerCosts
from workbench.optimizing.choice import Choice
from workbench.optimizing.device_costs import DeviceCosts
from workbench.optimizing.goal import Aim, Goal
from workbench.optimizing.least_cut import limits_tried
from workbench.optimizing.search_space import SearchSpace

_LAYER_PLANNED = 300.0
"""Work for every layer of a plan that bounds come from."""
_EACH_BOUND, _CELL_BOUNDED = 100.0, 0.008
"""Work for a bound that knows what fits: besides, for every pair and stage."""


class ChoiceBounds:
    """Bounds, from those that are had at once to those that take a while."""

    def __init__(
        self, space: SearchSpace, aim: Aim, spend: Callable[[float], None]
    ) -> None:
        self._aim = aim
        self._spend = spend
        self._layers = len(space.spec.model.layers)
        self._devices = DeviceCosts(space.spec, space.allowed_cuts)

    def costs_of(
        self, choice: Choice, *, any_device: bool = False
    ) -> LayerCosts | None:
        """Return the costs of layers on its device, or on any that is no looser."""
        planned = self._devices.planned
        costs = self._devices.of(choice, any_device=any_device)
        self._spend(_LAYER_PLANNED * self._layers * (self._devices.planned - planned))
        return costs

    def least(self, choice: Choice) -> float:
        """Return what a choice with a loosest device takes at least, if it fits."""
        costs = self.costs_of(choice, any_device=True)
        if costs is None:
            return float("inf")
        return self._least_cost(costs, choice, costs.least_us(choice))

    def may_fit(self, choices: tuple[Choice, ...]) -> bool:
        """Tell whether what saves most of all they do may fit on any device."""
        return self.least_filled(choices) is not None

    def least_filled(self, choices: tuple[Choice, ...]) -> float | None:
        """Return how full its fullest tile is at least; None if it does not fit."""
        moved = {name for choice in choices for name in choice.elsewhere}
        thriftiest = replace(
            min(choices, key=lambda choice: choice.accumulation),
            elsewhere=tuple(sorted(moved)),
        )
        costs = self.costs_of(thriftiest, any_device=True)
        self._spend(_CELL_BOUNDED * self._layers**2 * thriftiest.stages)
        if costs is None:
            return None
        cut = costs.least_filled(thriftiest, again_or_not=len(choices) > 1)
        return cut and cut.most

    def too_large(self, choice: Choice) -> list[int]:
        """Return the layers that no IPU holds, with all that can be moved elsewhere."""
        alone = replace(choice, ipus=2, stages=2, elsewhere=tuple(PLACEMENTS))
        costs = self.costs_of(alone, any_device=True)
        if costs is None:
            return []
        # In the last stage nothing waits, nor does it stream samples.
        count = costs.allowed.layers
        table = costs.bytes_of(alone, again_or_not=True)
        used = table(1, slice(0, count), slice(1, count + 1)).diagonal()
        return [int(at) for at in np.flatnonzero(used > costs.room)]

    def least_in_memory(
        self, choice: Choice, *, any_device: bool, with_copies: bool
    ) -> float | None:
        """Return the same for cuts that may fit; None if none does."""
        costs = self.costs_of(choice, any_device=any_device)
        if costs is None:
            return None
        known = len(costs.cuts)
        least = self._least_of_cuts(costs, choice, with_copies)
        self._spend(_EACH_BOUND)
        if len(costs.cuts) > known:
            limits = limits_tried(self._layers, choice.stages, with_copies)
            self._spend(_CELL_BOUNDED * self._layers**2 * choice.stages * limits)
        return least

    def _least_of_cuts(
        self, costs: LayerCosts, choice: Choice, with_copies: bool
    ) -> float | None:
        if self._aim.goal is Goal.MEMORY:
            cut = costs.least_filled(choice)
            return cut and cut.most
        least_us = costs.least_in_memory_us(choice, with_copies=with_copies)
        if least_us is None:
            return None
        return self._least_cost(costs, choice, least_us)

    def _least_cost(self, costs: LayerCosts, choice: Choice, least_us: float) -> float:
        if self._aim.goal is Goal.LATENCY and not costs.training:
            # Samples go through all stages.
            least_us = max(least_us, float(costs.forward[-1]))
        return self._aim.least(least_us, choice, costs.least_compile_s(choice))
