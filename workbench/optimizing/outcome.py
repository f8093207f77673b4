"""What a search comes to: the best, what else is worth a look, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ipu_runtime.plan.band import plan_band
from ipu_runtime.plan.placements import PLACEMENTS
from ipu_runtime.plan.schedule.building import overlap_length
from ipu_runtime.plan.schedule.schedule import ScheduleKind
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.optimizing.choice import Choice, with_choice
from workbench.optimizing.goal import Aim
from workbench.optimizing.lower_bound import LowerBound
from workbench.optimizing.neighbours import neighbours
from workbench.optimizing.other_hardware import (
    Different,
    decides,
    other_hardware,
)
from workbench.optimizing.search import WORK, Candidate, Search, Tell
from workbench.optimizing.search_space import SearchSpace
from workbench.planning.experiment_plan import plan_experiment

_MOST_ROWS = 8


@dataclass(frozen=True, slots=True)
class OtherSetting:
    """What the best loses by another value of one setting."""

    other: str
    """The setting instead: `schedule Interleaved`."""
    change: float | None
    """Of the goal's figure, as a share; None where it does not fit or run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to a question for the best plan."""

    spec: ExperimentSpec
    """The experiment that was asked about."""
    update_samples: int
    """Samples that every weight update was to have; 0 for any."""
    aim: Aim
    tried: int
    """Settings, whatever their cuts."""
    best: tuple[Candidate, ...] = ()
    """Not beaten in goal, memory and exactness at once; the best first."""
    other_settings: tuple[OtherSetting, ...] = ()
    different: tuple[Different, ...] = ()
    """What other hardware would change about the best."""
    decides: tuple[str, ...] = ()
    """Of every row: which part of a step its throughput depends on most."""
    undecided: frozenset[int] = frozenset()
    """Rows whose figure lies within what that of the best may be."""
    proven: bool = False
    """Whether every setting was tried with all its cuts."""
    lower_bound: LowerBound = field(default_factory=lambda: LowerBound(0.0, ()))
    """What nothing can be better than, tried or not."""
    too_large: tuple[str, ...] = ()
    """If nothing fits: layers that fit on no IPU, so that more would not help."""

    @property
    def gap(self) -> float:
        """By what share something untried could be better at most; 0 is a proof."""
        if self.proven or not self.best:
            return 0.0
        least = self.lower_bound.cost
        return max(self.best[0].cost / least - 1, 0.0) if least else float("inf")


def optimize(space: SearchSpace, aim: Aim, tell: Tell = lambda search: True) -> Outcome:
    """Search the space for what the aim wants."""
    search = Search(space, aim).run(tell)
    if search.best is None:
        return Outcome(
            space.spec,
            space.update_samples,
            aim,
            tried=search.tried,
            too_large=tuple(_too_large(space)),
        )
    best: Candidate | None = None
    changes: list[OtherSetting] = []
    # Where the search was cut short, a neighbour of its best may be better still.
    while search.best is not best:
        best = search.best
        changes = _other_settings(search, best.choice, tell)
    rows = _not_beaten(search.found.values())
    different = [other_hardware(item.plan, aim) for item in rows]
    return Outcome(
        space.spec,
        space.update_samples,
        aim,
        search.tried,
        rows,
        tuple(changes),
        different[0],
        tuple(decides(f.plan, d) for f, d in zip(rows, different, strict=True)),
        _undecided(rows, aim),
        search.proven,
        LowerBound.of(space, aim),
    )


def _not_beaten(found: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Return what nothing else beats in the goal, in memory and in exactness."""
    ordered = sorted(found, key=lambda item: (item.cost, item.plan.memory_fraction))
    rows: list[Candidate] = []
    for item in ordered:
        if not any(_at_least_as_good(other, item) for other in rows):
            rows.append(item)
    return tuple(rows[:_MOST_ROWS])


def _undecided(best: tuple[Candidate, ...], aim: Aim) -> frozenset[int]:
    """Return the rows that may be as good as the first, for all the model knows."""
    band = plan_band(best[0].plan)
    if band is None:
        return frozenset()
    limits = band.of(aim.cost)
    rows = enumerate(best[1:], 1)
    return frozenset(at for at, found in rows if limits.holds(found.cost))


def _at_least_as_good(one: Candidate, other: Candidate) -> bool:
    return (
        one.cost <= other.cost
        and one.plan.memory_fraction <= other.plan.memory_fraction
        and less_exact(one.choice) <= less_exact(other.choice)
    )


def less_exact(choice: Choice) -> bool:
    """Tell whether sums are rounded to half precision on the way."""
    return bool(choice.device.half_partials)


def _other_settings(search: Search, choice: Choice, tell: Tell) -> list[OtherSetting]:
    """Return what is lost by every other value of one setting.

    Of large models only by as many as a while allows.
    """
    best = search.found[choice].cost
    tried = [
        (what, search.try_alone(other))
        for what, other in neighbours(search.space, choice)
        if other in search.found or (search.work > -WORK / 3 and tell(search))
    ]
    tried.sort(key=lambda item: item[1].cost if item[1] else float("inf"))
    change = search.aim.change
    return [
        OtherSetting(what, change(item.cost, best) if item else None)
        for what, item in tried
    ]


def _too_large(space: SearchSpace) -> Iterator[str]:
    """Yield the layers that fit on no IPU, however many there are.

    Each is planned alone in a stage, with everything elsewhere that can be. None where
    the batch may not be smaller: that might help as well.
    """
    smallest = next(space.memory_savers(streams=True), None)
    layers = space.allowed_cuts.layers
    if smallest is None or smallest.device.micro_batch > 1 or layers < 2:
        return
    for at in range(layers):
        bounds = sorted({0, at, at + 1, layers})
        stages = range(len(bounds) - 1)
        schedule = ScheduleKind(smallest.schedule)
        choice = replace(
            smallest,
            ipus=max(1 << (len(stages) - 1).bit_length(), space.ipus),
            stages=len(stages),
            accumulation=overlap_length(schedule, stages, True),
            elsewhere=tuple(PLACEMENTS),
        )
        ends = list(pairwise(bounds))
        cuts = [stage for stage in stages for _ in range(*ends[stage])]
        spec = with_choice(space.spec, choice, tuple(cuts))
        plan = plan_experiment(spec, with_remedies=False)
        if plan.memory and not plan.memory[ends.index((at, at + 1))].fits:
            yield plan.layers[at].name
