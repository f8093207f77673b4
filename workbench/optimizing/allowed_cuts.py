"""Where stages may begin, whatever that costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ipu_runtime.plan.balance.cutting import Bools, find_windows
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.planning.balancing import locked_stages
from workbench.planning.shared_layers import shared_spans


@dataclass(frozen=True, slots=True)
class AllowedCuts:
    """Cuts that part nothing that shares weights, and move no locked layer."""

    layers: int
    uncut: frozenset[int]
    """Layers that no stage may begin with."""
    locked: Mapping[int, int]
    """Stage of layers that must not move."""

    @classmethod
    def of(cls, spec: ExperimentSpec, *, only_own: bool) -> AllowedCuts:
        """Return those of an experiment, or none but its own."""
        layers = sum(layer.kind != "Input" for layer in spec.model.layers)
        spans = shared_spans(spec)
        uncut = {at for first, last in spans for at in range(first + 1, last + 1)}
        own = dict(enumerate(spec.pipeline.stages))
        return cls(layers, frozenset(uncut), own if only_own else locked_stages(spec))

    def starts(self, stages: int) -> list[Bools]:
        """Return for every stage but the first which layers it may begin with."""
        windows = find_windows(self.layers, stages, self.locked)
        starts = []
        for before, own in pairwise(windows):
            may_start = np.zeros(self.layers + 1, dtype=bool)
            may_start[own.first_start : before.last_end + 1] = True
            may_start[list(self.uncut)] = False
            starts.append(may_start)
        return starts

    @property
    def least_stages(self) -> int:
        """How many there have to be for the locked layers."""
        return max(self.locked.values(), default=0) + 1

    def any(self, stages: int) -> bool:
        """Tell whether there is one of so many stages."""
        if stages < self.least_stages:
            return False
        start = 0
        for may_start in self.starts(stages):
            later = np.flatnonzero(may_start[start + 1 :])
            if not len(later):
                return False
            start += 1 + int(later[0])
        return True
