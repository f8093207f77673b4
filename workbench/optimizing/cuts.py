"""Where stages may begin: all cuts there are, and small changes of one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, pairwise, product
from typing import NamedTuple

import numpy as np

from ipu_runtime.plan.balance.cutting import Bools, find_windows
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.planning.balancing import locked_stages
from workbench.planning.shared_layers import shared_spans

Cuts = tuple[int, ...]
"""The stage of every layer; nothing for one stage."""
_SHIFTED = (1, -1, 2, -2, 3, -3, 5, -5, 10, -10)
"""Layers by which a stage begins later, or earlier."""


class Shift(NamedTuple):
    """A small change of a cut: from one stage to another they begin layers later."""

    first: int
    last: int
    layers: int


@dataclass(frozen=True)
class AllowedCuts:
    """Cuts that part nothing that shares weights, and move no locked layer."""

    layers: int
    uncut: frozenset[int]
    """Layers that no stage may begin with."""
    locked: Mapping[int, int]
    """Stage of layers that must not move."""
    _known_starts: dict[int, list[Bools]] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: ExperimentSpec, *, only_own: bool) -> AllowedCuts:
        """Return those of an experiment, or none but its own."""
        layers = sum(layer.kind != "Input" for layer in spec.model.layers)
        spans = shared_spans(spec)
        uncut = {at for first, last in spans for at in range(first + 1, last + 1)}
        own = dict(enumerate(spec.pipeline.stages))
        return cls(layers, frozenset(uncut), own if only_own else locked_stages(spec))

    @cached_property
    def least_stages(self) -> int:
        """How many there have to be for the locked layers."""
        return max(self.locked.values(), default=0) + 1

    def possible(self, stages: int) -> bool:
        """Tell whether there is a cut into so many stages."""
        if stages < self.least_stages:
            return False
        start = 0
        for may_start in self._starts(stages):
            later = np.flatnonzero(may_start[start + 1 :])
            if not len(later):
                return False
            start += 1 + int(later[0])
        return True

    def all(self, stages: int) -> Iterator[Cuts]:
        """Yield every cut into so many stages."""
        if stages == 1:
            yield ()
            return
        starts = self._starts(stages)
        places = np.flatnonzero(np.any(starts, axis=0)).tolist()
        for firsts in combinations(places, stages - 1):
            if all(own[at] for own, at in zip(starts, firsts, strict=True)):
                yield _stage_of_layer((0, *firsts, self.layers))

    def proportional(self, stages: int, times: Sequence[float]) -> Cuts:
        """Return stages with about equal shares of the times of layers."""
        if stages == 1:
            return ()
        before = np.concatenate([[0.0], np.cumsum(times)])
        bounds = [0]
        for stage, may_start in enumerate(self._starts(stages), 1):
            places = np.flatnonzero(may_start)
            places = places[places > bounds[-1]]
            if not len(places):
                return next(self.all(stages))
            far = np.abs(before[places] - before[-1] * stage / stages)
            bounds.append(int(places[far.argmin()]))
        return _stage_of_layer((*bounds, self.layers))

    def shifts(self, stages: int) -> Iterator[Shift]:
        """Yield the small changes of a cut: one stage, or two, begin elsewhere."""
        for layers, first, more in product(_SHIFTED, range(1, stages), (0, 1)):
            if first + more < stages:
                yield Shift(first, first + more, layers)

    def shifted(self, cuts: Cuts, shift: Shift) -> Cuts | None:
        """Return changed cuts; None if they are not allowed."""
        stages = cuts[-1] + 1
        bounds = [cuts.index(stage) for stage in range(stages)] + [self.layers]
        changed = range(shift.first, shift.last + 1)
        for stage in changed:
            bounds[stage] += shift.layers
        if any(one >= other for one, other in pairwise(bounds)):
            return None
        starts = self._starts(stages)
        if not all(starts[stage - 1][bounds[stage]] for stage in changed):
            return None
        return _stage_of_layer(tuple(bounds))

    def _starts(self, stages: int) -> list[Bools]:
        """Return for every stage but the first which layers it may begin with."""
        if stages in self._known_starts:
            return self._known_starts[stages]
        windows = find_windows(self.layers, stages, self.locked)
        starts = []
        for before, own in pairwise(windows):
            may_start = np.zeros(self.layers + 1, dtype=bool)
            may_start[own.first_start : before.last_end + 1] = True
            may_start[list(self.uncut)] = False
            starts.append(may_start)
        self._known_starts[stages] = starts
        return starts


def _stage_of_layer(bounds: tuple[int, ...]) -> Cuts:
    return tuple(
        stage
        for stage, (first, end) in enumerate(pairwise(bounds))
        for _ in range(first, end)
    )
