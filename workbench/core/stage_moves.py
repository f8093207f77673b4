"""Moving layers and cuts between pipeline stages; what cannot be done says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Stages = tuple[int, ...]
"""Stage of every layer, in the model's order."""


@dataclass(frozen=True, slots=True)
class Move:
    """A new assignment, or the reason why there is none."""

    stages: Stages
    text: str
    """What was done, or why nothing was."""
    done: bool = True


def move_layer(stages: Stages, names: Sequence[str], index: int, step: int) -> Move:
    """Move a layer to the stage before or after, with what lies between it and the cut.

    Layers run in order, so a layer in the middle of a stage takes its neighbours along.
    """
    stage = stages[index]
    target = stage + step
    count = max(stages) + 1
    if count == 1:
        return Move(stages, "there is one stage: n cuts it in two", False)
    if not 0 <= target < count:
        word = "before the first" if target < 0 else "after the last"
        return Move(stages, f"there is no stage {word}: n adds one", False)
    if step > 0:
        moved = [i for i in range(index, len(stages)) if stages[i] == stage]
    else:
        moved = [i for i in range(index + 1) if stages[i] == stage]
    if len(moved) == stages.count(stage):
        reason = f"stage {stage} would be empty, and every stage needs a layer"
        return Move(stages, f"{names[index]} cannot move: {reason}", False)
    result = tuple(target if i in moved else old for i, old in enumerate(stages))
    others = len(moved) - 1
    along = f" and {others} {'layer' if others == 1 else 'layers'} with it"
    return Move(
        result, f"{names[index]}{along if others else ''} moved to stage {target}"
    )


def move_cut(stages: Stages, names: Sequence[str], index: int, step: int) -> Move:
    """Move the cut that is nearest to a layer one layer up (-1) or down (1)."""
    cuts = [i for i in range(1, len(stages)) if stages[i] != stages[i - 1]]
    if not cuts:
        return Move(stages, "there is no cut: n makes one", False)
    cut = min(cuts, key=lambda place: (abs(place - index - 0.5), place))
    if step < 0:
        return move_layer(stages, names, cut - 1, 1)
    return move_layer(stages, names, cut, -1)


def add_stage(stages: Stages, weights: Sequence[float]) -> Move:
    """Cut the stage with the most work in two, as evenly as its layers allow."""
    count = max(stages, default=0) + 1
    divisible = [stage for stage in range(count) if stages.count(stage) > 1]
    if not divisible:
        return Move(stages, f"every stage has one layer: {count} is the most", False)
    work = {
        stage: sum(w for w, s in zip(weights, stages, strict=True) if s == stage)
        for stage in divisible
    }
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


def remove_stage(stages: Stages) -> Move:
    """Join the last two stages; the last one left means no pipeline."""
    count = max(stages, default=0) + 1
    if count == 1:
        return Move(stages, "there is one stage already", False)
    result = tuple(min(stage, count - 2) for stage in stages)
    text = "no pipeline any more" if count == 2 else f"{count - 1} stages"
    return Move(result, text)
