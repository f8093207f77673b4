"""A search for the best plan: everything where that is little, else by climbing."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, islice
from operator import attrgetter, itemgetter

import numpy as np

from ipu_runtime.plan.plan import LayerPlan, Plan
from ipu_runtime.plan.problem import Severity
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.tables import spec_to_tables
from workbench.experiment.validation import validate
from workbench.optimizing.choice import Choice, DeviceChoice, own_choice, with_choice
from workbench.optimizing.cuts import Cuts
from workbench.optimizing.goal import Aim, Goal
from workbench.optimizing.neighbours import neighbours, shared_out_otherwise
from workbench.optimizing.search_space import SearchSpace
from workbench.planning.balancing import balanced_experiment
from workbench.planning.experiment_plan import plan_experiment

_MOST_PLANS = 2500
"""Of choices with all their cuts: so many are planned one by one."""
WORK = 12e6
"""Microseconds that all plans may take together, on a small server."""
_EACH_PLAN, _LAYER_PLANNED, _LAYER_AGAIN, _STAGE_BALANCED = 600.0, 50.0, 8.0, 50.0
"""Of it, for a plan: besides, for each layer on another device, and on the same; for
each layer and stage of balancing."""
_BEAM = 12
"""Of so many of the best, all neighbours are tried."""
_FAR = 1.05
"""Of the best cost: beyond it, other cuts hardly make a choice the best."""
_FAR_SHIFTED = 1.1
"""The same where cuts are moved one by one, which gains more in small models."""
_FAR_UNBALANCED = 1.5
"""The same of cuts that are only proportional."""
_OVERFULL = 1.1
"""Of the memory of all IPUs: no cuts hold more."""
_NEARLY = 1.2
"""How full the fullest tile may be for single cuts to make room."""
_FOR_CUTS, _FOR_ROOM = 1 / 4, 1 / 40
"""Of all work: what is left for moving cuts at the end, and what making room takes."""
_LARGEST = 3
"""Micro-batches that are tried first where updates may have any samples."""
_FEW_CUTS = 250
"""So many are all planned, for the best few."""
_EVENED = 30
"""Plans to make IPUs equally full."""
_TRIES = 2
"""Halvings of the memory that balancing may fill."""

Tell = Callable[["Search"], bool]
"""Told before every try; False ends the search."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A choice with cuts, planned."""

    choice: Choice
    spec: ExperimentSpec
    plan: Plan
    cost: float

    @property
    def fits(self) -> bool:
        """Whether every IPU holds what it has to."""
        return all(item.severity is not Severity.NO_FIT for item in self.plan.problems)

    @property
    def nearly_fits(self) -> bool:
        """Whether moving a cut may make room."""
        return 1.0 < self.plan.memory_fraction <= _NEARLY

    @property
    def rank(self) -> tuple[float, float, float]:
        """What is to be least: what does not fit, then the cost.

        Where that is the fullest IPU, layers pass through others to an empty one.
        """
        fullness = [item.memory_fraction for item in self.plan.memory]
        excess = sum(max(full - 1.0, 0.0) for full in fullness)
        by_memory = self.cost == self.plan.memory_fraction
        return excess, self.cost, by_memory * sum(full**8 for full in fullness)


_COST = attrgetter("cost")


@dataclass
class Search:
    """A search: what it found so far, and what it may still spend.

    [Note: how it searches]
    A choice is everything that is searched but the cuts between stages. Where all
    choices with all their cuts are few, each is planned, and what is best is proven.
    Elsewhere the search begins with the experiment as it is and, for every number of
    stages, with the first choice that fits. From there it climbs: of the best few
    whose neighbours were not tried yet it takes the best, and tries every choice that
    differs in one setting, until none of the few is left. A plateau or a small dip
    between two good choices does not stop it, as it would stop a plain climb.
    A pipeline is tried with the cuts that were best for as many stages so far. Only if
    that comes close to the best, or does not fit, it gets cuts of its own by balancing,
    which takes ten to a hundred times as long as a plan. Balancing adds up layers; what
    the plan knows besides (tensors that two stages share, products that compile once)
    is found by moving one cut at a time.
    """

    space: SearchSpace
    aim: Aim
    most_plans: int = _MOST_PLANS
    """If there are no more, each is planned."""
    work: float = WORK
    """What is left of it; counted, not timed, so that results repeat."""
    found: dict[Choice, Candidate] = field(default_factory=dict)
    """The best that fits of every choice."""
    best: Candidate | None = None
    """The best of all; of equals, the first tried."""
    tried: int = 0
    proven: bool = False
    """Whether everything was tried."""
    _tell: Tell = field(default=lambda search: True)
    _for_cuts: float = 0.0
    """Work that climbing leaves."""
    _tried: set[Choice] = field(default_factory=set)
    _devices: set[DeviceChoice] = field(default_factory=set)
    """Those planned so far, whose layers are known."""
    _balanced_stages: set[int] = field(default_factory=set)
    """Numbers of stages whose cuts are no longer only proportional."""
    _too_full: dict[Choice, float] = field(default_factory=dict)
    """What choices would cost that did not fit at first."""
    _best_of_stages: dict[int, Candidate] = field(default_factory=dict)
    """By their number; others are tried with its cuts."""

    def run(self, tell: Tell = lambda search: True) -> Search:
        """Try choices until nothing is left to try, or the search is ended."""
        self._tell, self._for_cuts = tell, _FOR_CUTS * self.work
        self._try_own()
        everything = list(islice(self._everything(), self.most_plans + 1))
        if len(everything) <= self.most_plans:
            self.proven = self._plan_all(everything)
            return self
        self._start()
        best = None
        while self.best is not best:
            best = self.best
            self._climb()
            self._improve_cuts()
        return self

    def try_alone(self, choice: Choice) -> Candidate | None:
        """Return what comes of one choice, with cuts that fit if there are some."""
        if choice not in self.found and not self.proven:
            self._try(choice, thorough=True)
        return self.found.get(choice)

    def _try_own(self) -> None:
        own = own_choice(self.space.spec)
        if own.ipus <= self.space.ipus and self.space.allows(own.update_samples):
            plan = plan_experiment(self.space.spec, with_remedies=False)
            self._add(self._candidate(own, self.space.spec, plan))

    def _everything(self) -> Iterator[tuple[Choice, Cuts]]:
        for choice in self.space.all_choices():
            for cuts in self.space.allowed_cuts.all(choice.stages):
                yield choice, cuts

    def _plan_all(self, everything: Iterable[tuple[Choice, Cuts]]) -> bool:
        """Plan choices with all their cuts; tell whether it came to the end."""
        for choice, own in groupby(everything, key=itemgetter(0)):
            if not self._may_go_on():
                return False
            self.tried += 1
            self._tried.add(choice)
            for _, cuts in own:
                self._add(self._planned(choice, cuts))
        return True

    def _start(self) -> None:
        """Try what may be good for every number of stages.

        If nothing fits, what takes least memory may. Streaming memory is so slow that
        what every micro-batch would wait for comes last.
        """
        if self.aim.goal is not Goal.MEMORY:
            for choices in self.space.starts():
                self._try_first_that_fits(choices)
        for streams in (False, True):
            for choice in self.space.memory_savers(streams=streams):
                if self.best is None or self.aim.goal is Goal.MEMORY:
                    self._try(choice)

    def _try_first_that_fits(self, choices: Iterable[Choice]) -> None:
        """Try micro-batches, with what saves memory only where it has to.

        The largest that fit are enough where updates may have more samples with them.
        """
        fitted = 0
        for _, alike in groupby(choices, key=lambda choice: choice.device.micro_batch):
            *others, last = alike
            if self._try(last):
                any(self._try(choice) for choice in others)
                fitted += 1
                if fitted == _LARGEST and not self.space.update_samples:
                    return

    def _climb(self) -> None:
        """Try all neighbours of the best of every size, the best sizes first."""
        climbed: set[Choice] = set()
        while self.work > self._for_cuts and self._may_go_on():
            few = heapq.nsmallest(_BEAM, self._best_of_sizes(), key=_COST)
            here = next((item for item in few if item.choice not in climbed), None)
            if here is None:
                return
            climbed.add(here.choice)
            for choice in self._around(here.choice):
                if self.work < self._for_cuts:
                    return
                if not self._try(choice) and self._may_be_best(choice):
                    any(self._try(other) for other in self._savings(choice))

    def _around(self, choice: Choice) -> Iterator[Choice]:
        for _, other in neighbours(self.space, choice):
            yield other
        yield from shared_out_otherwise(self.space, choice)

    def _may_be_best(self, choice: Choice) -> bool:
        """Tell whether a choice that does not fit would be among the best if it did."""
        cost = self._too_full.get(choice)
        return cost is not None and (self.best is None or cost <= self.best.cost * _FAR)

    def _savings(self, choice: Choice) -> Iterator[Choice]:
        """Yield the same with recomputation, or with something out of the tiles.

        Then with the least memory for products too, which takes longer.
        """
        device, size = choice.device, (choice.stages, choice.ipus)
        least = [
            other
            for other in self.space.devices()
            if replace(other, proportion=device.proportion) == device
        ]
        small = min(least, key=lambda other: other.proportion or "1")
        for own in dict.fromkeys((device, small)):
            for other in self.space.choices(own, *size):
                saves = replace(
                    other,
                    device=device,
                    recompute=choice.recompute,
                    elsewhere=choice.elsewhere,
                )
                if saves == choice and not other.streams:
                    yield other

    def _best_of_sizes(self) -> Iterable[Candidate]:
        best: dict[tuple[int, int], Candidate] = {}
        for choice, item in self.found.items():
            known = best.setdefault((choice.stages, choice.ipus), item)
            if item.cost < known.cost:
                best[choice.stages, choice.ipus] = item
        return best.values()

    def _improve_cuts(self) -> None:
        """Give the best of every size cuts of its own, and move single ones."""
        few = heapq.nsmallest(_BEAM, self._best_of_sizes(), key=_COST)
        for here in (item for item in few if item.choice.stages > 1):
            if self.best is not None and here.cost <= self.best.cost * _FAR_UNBALANCED:
                self._add(self._with_own_cuts(here))
        for here in heapq.nsmallest(_BEAM, self._best_of_sizes(), key=_COST):
            if self.best is None or here.cost > self.best.cost * _FAR_SHIFTED:
                continue
            cuts = self.space.allowed_cuts.all(here.choice.stages)
            everything = list(islice(cuts, _FEW_CUTS + 1))
            if len(everything) > _FEW_CUTS:
                self._add(self._shifted(here))
            elif here.choice.stages > 1:
                for own in everything:
                    self._add(self._planned(here.choice, own))

    def _evened(self, here: Candidate) -> Candidate:
        """Return what comes of giving layers of full IPUs to others, where it helps.

        Layers weigh as much as their IPU is full, and cuts share out the weights.
        """
        best, seen = here, {here.spec.pipeline.stages}
        weights = np.array(self._layer_bytes)
        for _ in range(_EVENED):
            cuts = np.array(here.spec.pipeline.stages)
            sums = np.bincount(cuts, weights)
            full = [here.plan.memory[at].memory_fraction for at in range(len(sums))]
            weights = weights * np.sqrt(np.array(full) / sums)[cuts]
            stages = here.choice.stages
            changed = self.space.allowed_cuts.proportional(stages, weights.tolist())
            moved = self._planned(here.choice, changed)
            if changed in seen or moved is None or not self._may_go_on():
                break
            seen.add(changed)
            here = moved
            best = min(best, here, key=attrgetter("rank"))
        return best

    def _shifted(self, here: Candidate, work: float = WORK) -> Candidate:
        """Return what comes of small changes of the cuts, each for the better."""
        cuts, before = self.space.allowed_cuts, None
        until = self.work - work
        while here is not before:
            before = here
            for shift in cuts.shifts(here.choice.stages):
                if self.work < until or not self._may_go_on():
                    return here
                changed = cuts.shifted(here.spec.pipeline.stages, shift)
                moved = changed and self._planned(here.choice, changed)
                if moved and moved.rank < here.rank:
                    here = moved
        return here

    def _may_go_on(self) -> bool:
        return self.work > 0 and self._tell(self)

    def _try(self, choice: Choice, *, thorough: bool = False) -> bool:
        """Plan a choice with cuts that may be good; tell whether it fits."""
        if choice in self._tried and not thorough:
            return choice in self.found
        if not thorough and not self._may_go_on():
            return False
        self._tried.add(choice)
        self.tried += 1
        known = self._best_of_stages.get(choice.stages)
        cuts = (
            known.spec.pipeline.stages
            if known
            else self.space.allowed_cuts.proportional(choice.stages, self._layer_times)
        )
        first = self._planned(choice, cuts)
        self._add(first)
        if first is not None and not first.fits:
            self._too_full[choice] = first.cost
        if first is not None and choice.stages > 1:
            by_time = self.aim.goal is not Goal.MEMORY
            balanced = choice.stages in self._balanced_stages
            far = _FAR if balanced and by_time else _FAR_UNBALANCED
            if self._needs_own_cuts(first, far, thorough):
                self._balanced_stages.add(choice.stages)
                self._add(self._with_own_cuts(first))
        return choice in self.found

    def _with_own_cuts(self, first: Candidate) -> Candidate:
        """Return a choice with cuts that suit it better than the first, if any do."""
        if self.aim.goal is Goal.MEMORY:
            return self._evened(first)
        balanced = self._balanced(first.choice) or first
        best = min(first, balanced, key=attrgetter("rank"))
        if not best.nearly_fits:
            return best
        return self._shifted(self._evened(best), work=_FOR_ROOM * WORK)

    def _needs_own_cuts(self, first: Candidate, far: float, thorough: bool) -> bool:
        """Tell whether other cuts may fit, and may be the best or are asked for."""
        memory = first.plan.memory
        used = sum(item.used_bytes for item in memory)
        if used > _OVERFULL * sum(item.capacity_bytes for item in memory):
            return False
        if self.best is None or (thorough and not first.fits):
            return True
        return first.cost <= self.best.cost * far

    @cached_property
    def _layers(self) -> tuple[LayerPlan, ...]:
        """All of them on one IPU."""
        device = next(self.space.devices())
        spec = with_choice(self.space.spec, Choice(device, 1, 1, 1))
        return plan_experiment(spec, with_remedies=False).layers

    @property
    def _layer_times(self) -> list[float]:
        return [layer.forward_us + layer.backward_us for layer in self._layers]

    @property
    def _layer_bytes(self) -> list[float]:
        return [
            float(layer.memory_bytes + layer.working_bytes) for layer in self._layers
        ]

    def _balanced(self, choice: Choice) -> Candidate | None:
        """Return a pipeline with the best cuts that balancing finds."""
        chosen = with_choice(self.space.spec, choice)
        # Locked layers stay where the experiment has them.
        own = replace(chosen.pipeline, stages=self.space.spec.pipeline.stages)
        self.work -= _STAGE_BALANCED * choice.stages * len(chosen.model.layers)
        balanced = balanced_experiment(
            replace(chosen, pipeline=own),
            choice.stages,
            self.aim.balances.value,
            before=self.space.spec,
            tries=_TRIES,
        )
        pipeline = balanced.plan.request.pipeline
        if balanced.result.problem or pipeline is None:
            return None
        spec = with_choice(self.space.spec, choice, pipeline.stage_of_layer)
        return self._candidate(choice, spec, balanced.plan)

    def _planned(self, choice: Choice, cuts: Cuts) -> Candidate | None:
        """Return a choice with cuts; None if a rule forbids it."""
        known = choice.device in self._devices
        self._devices.add(choice.device)
        each = _LAYER_AGAIN if known else _LAYER_PLANNED
        self.work -= _EACH_PLAN + each * len(self.space.spec.model.layers)
        spec = with_choice(self.space.spec, choice, cuts)
        return self._candidate(
            choice, spec, plan_experiment(spec, with_remedies=False, with_layers=False)
        )

    def _candidate(
        self, choice: Choice, spec: ExperimentSpec, plan: Plan
    ) -> Candidate | None:
        forbidden = any(item.severity is Severity.ERROR for item in plan.problems)
        if forbidden or plan.step is None:
            return None
        return Candidate(choice, spec, plan, self.aim.cost(plan))

    def _add(self, item: Candidate | None) -> None:
        """Remember what fits, if it is the best of its choice."""
        if item is None or not item.fits:
            return
        known = self.found.get(item.choice)
        # The experiment itself may have more than what is searched.
        if known is not None and known.cost <= item.cost:
            return
        if validate(spec_to_tables(item.spec))[0] is None:
            return
        self.found[item.choice] = item
        stages = item.choice.stages
        if self.best is None or item.cost < self.best.cost:
            self.best = item
        if item.cost <= self._best_of_stages.setdefault(stages, item).cost:
            self._best_of_stages[stages] = item
