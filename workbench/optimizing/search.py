"""Branch and bound over choices: the most promising first, until none can be better."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from workbench.experiment.resolved_model import resolved
from workbench.optimizing.choice import Choice, DeviceChoice, own_choice
from workbench.optimizing.choice_bounds import ChoiceBounds
from workbench.optimizing.goal import Aim, Goal
from workbench.optimizing.neighbours import neighbours
from workbench.optimizing.search_space import SearchSpace
from workbench.optimizing.trying import (
    NO_FIT,
    Found,
    planned,
    tried_out,
)

WORK = 12e6
"""What all tries may take together: about 12 s on a small server."""
_MUCH, _MOST_WORK = 175, 16e6
"""Models of more layers get more of it, up to that."""
_EACH_TRY, _LAYER_TRIED, _STAGE_TRIED, _PAIR_TRIED = 6e3, 300.0, 25.0, 0.5
"""Of it, for a try: besides, for every layer, its stages, and its other layers."""
_FOR_PROOF = 0.6
"""Of what the first tries leave of it: for the bounds of everything else."""
_ROUNDING = 1e-9
"""Bounds add up the same in another order."""

Tell = Callable[["Search"], bool]
"""Told after every try; False ends the search."""


@dataclass(frozen=True, slots=True)
class _Node:
    """Choices that nothing is known of but what they cannot be below."""

    least: float
    choices: tuple[Choice, ...]
    devices: tuple[DeviceChoice, ...] = ()
    """Which they may have instead of their own; empty if they have it."""
    tight: bool = False
    """Whether the bound knows what fits into memory."""
    with_copies: bool = False
    """Whether it also knows what such cuts have to copy."""


@dataclass
class Search:
    """A search: what it found so far, and what is left to try."""

    space: SearchSpace
    aim: Aim
    work: float = 0.0
    """What is left of it, 0 at first for what suits the model.

    Counted, not timed, so that results repeat.
    """
    found: dict[Choice, Found] = field(default_factory=dict)
    best: Found | None = None
    """The best of what was found; of equals, the first tried."""
    tried: int = 0
    _bounds: ChoiceBounds = field(init=False)
    _too_large: dict[object, bool] = field(default_factory=dict)
    """What the memory of choices depends on that were found not to fit, and whether
    that is sure: cuts that were not tried may."""
    _untried: float = float("inf")
    """Least cost that settings can have which were not tried."""
    _other_cuts: float = float("inf")
    """The same of settings that were tried, with cuts that were not."""

    def __post_init__(self) -> None:
        share = max(1.0, len(self.space.spec.model.layers) / _MUCH)
        self.work = self.work or min(WORK * share, _MOST_WORK)
        self._bounds = ChoiceBounds(self.space, self.aim, self._spend)

    def _spend(self, work: float) -> None:
        self.work -= work

    @property
    def gap(self) -> float:
        """How much better than the best something untried could be; 0 is a proof."""
        least = min(self._untried, self._other_cuts)
        if self.best is None or self._beats(least):
            return 0.0
        return self.best.cost / least - 1 if least else float("inf")

    @property
    def only_cuts(self) -> bool:
        """Whether nothing could be better but other cuts of what was tried."""
        return self._beats(self._untried)

    def too_large(self) -> tuple[str, ...]:
        """Return the layers that fit on no IPU, however many there are.

        None where the batch may not be smaller: that might help as well.
        """
        thriftiest = next(self.space.thriftiest(streams=True), None)
        model, _ = resolved(self.space.spec.model)
        if thriftiest is None or model is None or thriftiest.device.micro_batch > 1:
            return ()
        loosest = replace(thriftiest, device=self.space.loosest(thriftiest.device))
        layers = self._bounds.too_large(loosest)
        return tuple(model.stage_layers[at].name for at in layers)

    def run(self, tell: Tell = lambda search: True) -> Search:
        """Try choices until none is left that could be better, or time is up.

        Streaming memory is so slow that what every micro-batch would wait for is moved
        there only if the model fits in no other way.
        """
        self._start(tell)
        self._climb(tell)
        if self.aim.goal is Goal.MEMORY:
            self._run(tell, streams=True)
        self._run(tell, streams=False)
        if self.best is None:
            self._run(tell, streams=True)
        return self

    def _start(self, tell: Tell) -> None:
        """Begin with the experiment as it is, and one choice per number of stages.

        If none of them fits, what takes least memory may: a search that is cut short
        shall have found something.
        """
        own = own_choice(self.space.spec)
        if own.ipus <= self.space.ipus and self.space.allows(own.update_samples):
            first = planned(self.space.spec, own, self.aim, exact=False)
            if isinstance(first, Found):
                self._add(first)
        thrifty = self.aim.goal is Goal.MEMORY
        for choices in () if thrifty else self.space.starts():
            self._start_from(choices, tell)
        for choice in self.space.thriftiest(streams=thrifty):
            if (self.best is not None and not thrifty) or not tell(self):
                break
            node = self._tightened(choice)
            if node is not None and not self._beats(node.least):
                self._try(choice, node.least)

    def _start_from(self, choices: list[Choice], tell: Tell) -> None:
        """Try the first of some choices that fits."""
        for choice in choices:
            if not self._may_go_on(tell):
                return
            loosest = replace(choice, device=self.space.loosest(choice.device))
            if not self._bounds.may_fit((loosest,)):
                continue
            node = self._tightened(choice)
            if node is not None and not self._beats(node.least):
                self._try(choice, node.least)
                if choice in self.found:
                    return

    def _climb(self, tell: Tell) -> None:
        """Change one setting of the best at a time, as long as that helps."""
        here, kept = None, self.work * _FOR_PROOF
        while self.best is not None and here is not self.best:
            here = self.best
            for _, choice in neighbours(self.space, here.choice):
                if choice in self.found:
                    continue
                if self.work < kept or not self._may_go_on(tell):
                    return
                node = self._tightened(choice)
                if node is not None and not self._beats(node.least):
                    self._try(choice, node.least)

    def _may_go_on(self, tell: Tell) -> bool:
        return self.work > 0 and tell(self)

    def _run(self, tell: Tell, *, streams: bool) -> None:
        # Of equals, those that save memory come last, and first if that is the goal.
        order = count(step=-1 if self.aim.goal is Goal.MEMORY else 1)
        heap: list[tuple[float, int, _Node]] = [
            (node.least, next(order), node) for node in self._nodes(streams)
        ]
        heapq.heapify(heap)
        while heap and not self._beats(heap[0][0]):
            if not self._may_go_on(tell):
                self._untried = min(self._untried, heap[0][0])
                break
            node = heapq.heappop(heap)[2]
            for child in self._opened(node):
                if not self._beats(child.least):
                    heapq.heappush(heap, (child.least, next(order), child))

    def try_alone(self, choice: Choice) -> Found | None:
        """Return what comes of one choice, with its best cuts."""
        if choice not in self.found:
            self._try(choice, float("inf"), thorough=True)
        return self.found.get(choice)

    def _beats(self, least: float) -> bool:
        best = self.best
        return best is not None and best.cost <= least * (1 + _ROUNDING)

    def _nodes(self, streams: bool) -> Iterator[_Node]:
        devices: dict[DeviceChoice, list[DeviceChoice]] = {}
        for device in self.space.devices():
            devices.setdefault(self.space.loosest(device), []).append(device)
        for loosest, stricter in devices.items():
            for stages, ipus in self.space.cuts():
                alike: dict[str, list[Choice]] = {}
                for choice in self.space.choices(loosest, stages, ipus):
                    if choice.streams == streams or stages == 1:
                        alike.setdefault(choice.schedule, []).append(choice)
                for choices in map(tuple, alike.values()):
                    least = self._least_of(choices)
                    if least is not None:
                        yield _Node(least, choices, tuple(stricter))

    def _least_of(self, choices: tuple[Choice, ...]) -> float | None:
        if self.aim.goal is Goal.MEMORY:
            return self._bounds.least_filled(choices)
        return min(map(self._bounds.least, choices))

    def _opened(self, node: _Node) -> Iterator[_Node]:
        """Yield what is left of a node to look at, with a bound that is closer."""
        choice = node.choices[0]
        if len(node.choices) > 1:
            for choice in node.choices if self._bounds.may_fit(node.choices) else ():
                least = max(node.least, self._bounds.least(choice))
                yield _Node(least, (choice,), node.devices)
        elif not node.tight:
            tightened = self._tightened(choice, any_device=bool(node.devices))
            if tightened is not None:
                least = max(node.least, tightened.least)
                yield replace(tightened, least=least, devices=node.devices)
        elif node.devices:
            for other in self.space.on_devices(choice, node.devices):
                yield _Node(node.least, (other,))
        elif self._saves_in_vain(choice):
            return
        elif not node.with_copies and choice.stages > 1:
            tightened = self._tightened(choice, with_copies=True)
            if tightened is not None:
                yield replace(tightened, least=max(node.least, tightened.least))
        elif (key := (choice.device, *choice.memory_key)) not in self._too_large:
            self._try(choice, node.least)
        elif not self._too_large[key]:
            self._other_cuts = min(self._other_cuts, node.least)

    def _tightened(
        self, choice: Choice, *, any_device: bool = False, with_copies: bool = False
    ) -> _Node | None:
        """Return the choice with a bound that knows what fits; None if nothing does."""
        least = self._bounds.least_in_memory(
            choice, any_device=any_device, with_copies=with_copies
        )
        if least is None:
            return None
        return _Node(least, (choice,), tight=True, with_copies=with_copies)

    def _saves_in_vain(self, choice: Choice) -> bool:
        """Tell whether the same is as fast without recomputing, or on the tiles.

        A pipeline may have better cuts with it.
        """
        if self.aim.goal is Goal.MEMORY or choice.stages > 1:
            return False
        thriftless = replace(choice, recompute=False), replace(choice, elsewhere=())
        return any(other != choice and other in self.found for other in thriftless)

    def _try(self, choice: Choice, least: float, *, thorough: bool = False) -> None:
        self.tried += 1
        layers = len(self.space.spec.model.layers)
        own = _LAYER_TRIED + _STAGE_TRIED * choice.stages + _PAIR_TRIED * layers
        self._spend(_EACH_TRY + layers * own)
        wanted = float("inf") if thorough or not self.best else self.best.cost
        found, settled = tried_out(
            self.space, choice, self.aim, self._bounds.costs_of(choice), wanted
        )
        if isinstance(found, Found):
            self._add(found)
        elif found == NO_FIT:
            self._too_large[(choice.device, *choice.memory_key)] = settled
        if not settled:
            closer = self._tightened(choice, with_copies=True)
            if closer is not None:
                self._other_cuts = min(self._other_cuts, max(least, closer.least))

    def _add(self, found: Found) -> None:
        known = self.found.get(found.choice)
        # The experiment itself may have more than what is searched.
        if known is None or found.cost < known.cost:
            self.found[found.choice] = found
        if self.best is None or found.cost < self.best.cost:
            self.best = found
