"""Moving layers and cuts between pipeline stages; what cannot be done says why."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

Stages = tuple[int, ...]
"""Stage of every layer, in the model's order."""


@dataclass(frozen=True, slots=True)
class Move:
    """A new assignment, or the reason why there is none."""

    stages: Stages
    text: str
    """What was done, or why nothing was."""
    done: bool = True


def move_block(stages: Stages, name: str, first: int, last: int, step: int) -> Move:
    """Move layers that belong together, one or more, to the stage before or after.

    Layers run in order, so that in the middle of a stage they take along what lies
    between them and the cut. A block that is cut becomes whole first: in the stage to
    which it is moved.
    """
    count = max(stages) + 1
    near, far = (first, last) if step > 0 else (last, first)
    target = stages[far] if stages[near] != stages[far] else stages[far] + step
    if count == 1:
        return Move(stages, "there is one stage: n cuts it in two", False)
    if not 0 <= target < count:
        word = "before the first" if target < 0 else "after the last"
        return Move(stages, f"there is no stage {word}: n adds one", False)
    if step > 0:
        moved = {i for i in range(first, len(stages)) if stages[first] <= stages[i]}
        moved = {i for i in moved if stages[i] < target}
    else:
        moved = {i for i in range(last + 1) if target < stages[i] <= stages[last]}
    result = tuple(target if i in moved else old for i, old in enumerate(stages))
    emptied = sorted(set(range(count)) - set(result))
    if emptied:
        reason = f"stage {emptied[0]} would be empty, and every stage needs a layer"
        return Move(stages, f"{name} cannot move: {reason}", False)
    others = len(moved - set(range(first, last + 1)))
    along = f" and {others} {'layer' if others == 1 else 'layers'} with it"
    return Move(result, f"{name}{along if others else ''} moved to stage {target}")


def move_cut(
    stages: Stages,
    names: Sequence[str],
    index: int,
    step: int,
    places: Sequence[int] = (),
) -> Move:
    """Move the cut that is nearest to a layer up (-1) or down (1).

    It goes to the next of some places, first layers of blocks, or by one layer.
    """
    cuts = [i for i in range(1, len(stages)) if stages[i] != stages[i - 1]]
    if not cuts:
        return Move(stages, "there is no cut: n makes one", False)
    cut = min(cuts, key=lambda place: (abs(place - index - 0.5), place))
    if step < 0:
        start = max((i for i in cuts if i < cut), default=0)
        place = max((i for i in places if start < i < cut), default=cut - 1)
        return _move_layers(stages, names, place, cut - 1, 1)
    end = min((i for i in cuts if i > cut), default=len(stages))
    place = min((i for i in places if cut < i < end), default=cut + 1)
    return _move_layers(stages, names, cut, place - 1, -1)


def _move_layers(
    stages: Stages, names: Sequence[str], first: int, last: int, step: int
) -> Move:
    more = last - first
    name = f"{names[first]} and {more} more" if more else names[first]
    return move_block(stages, name, first, last, step)


def add_stage(stages: Stages, weights: Sequence[float]) -> Move:
    """Cut the stage with the most work in two, as evenly as its layers allow."""
    count = max(stages, default=0) + 1
    divisible = [stage for stage in range(count) if stages.count(stage) > 1]
    if not divisible:
        return Move(stages, f"every stage has one layer: {count} is the most", False)
    work = _work_of_stages(stages, weights)
    longest = max(divisible, key=work.__getitem__)
    members = [i for i, stage in enumerate(stages) if stage == longest]
    best = min(
        range(1, len(members)),
        key=lambda cut: abs(sum(weights[i] for i in members[:cut]) - work[longest] / 2),
    )
    later = set(members[best:])
    result = tuple(
        stage + 1 if stage > longest or i in later else stage
        for i, stage in enumerate(stages)
    )
    return Move(result, f"stage {longest} is cut in two: {count + 1} stages")


def remove_stage(stages: Stages, weights: Sequence[float]) -> Move:
    """Join the two neighbours with the least work; one stage means no pipeline."""
    count = max(stages, default=0) + 1
    if count == 1:
        return Move(stages, "there is one stage already", False)
    work = _work_of_stages(stages, weights)
    first = min(range(count - 1), key=lambda stage: work[stage] + work[stage + 1])
    result = tuple(stage - (stage > first) for stage in stages)
    if count == 2:
        return Move(result, "no pipeline any more")
    return Move(result, f"stages {first} and {first + 1} are one: {count - 1} stages")


def _work_of_stages(stages: Stages, weights: Sequence[float]) -> list[float]:
    return [
        sum(w for w, s in zip(weights, stages, strict=True) if s == stage)
        for stage in range(max(stages) + 1)
    ]


def cut_evenly(stages: Stages, weights: Sequence[float], count: int) -> Move:
    """Cut the model into so many stages, each with about the same work."""
    layers = len(stages)
    if not 1 <= count <= layers:
        return Move(stages, f"1 to {layers} stages are possible, not {count}", False)
    if count == max(stages) + 1:
        return Move(stages, f"there are {count} stages already", False)
    done = [0.0, *accumulate(weights)]
    cuts = [0]
    for number in range(1, count):
        wanted = done[-1] * number / count
        places = range(cuts[-1] + 1, layers - (count - number) + 1)
        cuts.append(min(places, key=lambda place: abs(done[place] - wanted)))
    result = tuple(bisect_right(cuts, index) - 1 for index in range(layers))
    return Move(result, "no pipeline any more" if count == 1 else f"{count} stages")
