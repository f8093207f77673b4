"""The points of a sweep: every combination of the values of its axes."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ipu_runtime.plan.config.field import nearest
from ipu_runtime.plan.problem import Problem
from workbench.experiment.experiment_fields import FIELD_OF_PATH

_MOST_SHOWN = 40
"""Characters of a wrong value that are worth reading."""
STAGES = "stages"
"""Axis that is no field: layers are balanced over so many stages at every point."""
_EVERY_LAYER = "pipeline.stages"
MOST_POINTS = 1_000_000
_FEWER = f"at most {MOST_POINTS:,}"

_COUNT = re.compile(r"0*[1-9][0-9]{0,5}")
_RANGE = re.compile(r"(-?\d{1,20})\.\.(-?\d{1,20})(?:\.\.(\d{1,20}))?")


@dataclass(frozen=True, slots=True)
class Axis:
    """A setting and the values that it takes, as written."""

    path: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.path}={','.join(self.values)}"


@dataclass(frozen=True, slots=True)
class Point:
    """One combination."""

    index: int
    values: Mapping[str, str]
    """By the axis' path, as written."""


def parse_grid(texts: Sequence[str]) -> tuple[tuple[Axis, ...], tuple[Problem, ...]]:
    """Read axes such as `data.batch_size=16,32` or `stages=2..8..2`."""
    axes: list[Axis] = []
    problems: list[Problem] = []
    known = [*FIELD_OF_PATH, STAGES]
    for text in texts:
        path, separator, values_text = text.partition("=")
        path = path.strip()
        pieces = list(_pieces(values_text))
        if sum(map(len, pieces)) > MOST_POINTS:
            problems.append(Problem(f"--grid {path}", "too many values", _FEWER))
            continue
        values = tuple(str(value) for piece in pieces for value in piece)
        if not separator or not values:
            hint = "write it as field=value,value,..."
            problems.append(Problem("--grid", f"{text!r} has no values", hint))
        elif path not in known and not path.startswith("model.layers"):
            guess = nearest(path, known)
            hint = f"did you mean {guess}?" if guess else "see: ipu-workbench presets"
            problems.append(Problem(f"--grid {path}", "unknown field", hint))
        elif path in [axis.path for axis in axes]:
            problems.append(Problem(f"--grid {path}", "is given twice"))
        elif path == STAGES and (
            wrong := [value for value in values if not _COUNT.fullmatch(value)]
        ):
            hint = "use whole numbers from 1, which is no pipeline"
            given = repr(wrong[0])
            given = given if len(given) <= _MOST_SHOWN else f"{given[:_MOST_SHOWN]}…"
            text = f"{given} stages"
            problems.append(Problem("--grid stages", text, hint))
        elif path == _EVERY_LAYER and any(map(_COUNT.fullmatch, values)):
            text = "takes the stage of every layer, for example [0,0,1]"
            hint = f"{STAGES}={values_text} for so many stages"
            problems.append(Problem(f"--grid {path}", text, hint))
        else:
            axes.append(Axis(path, values))
    if not axes and not problems:
        problems.append(Problem("--grid", "is missing", "for example stages=2,4"))
    if count_points(axes) > MOST_POINTS:
        text = f"{count_points(axes):,} points are too many"
        problems.append(Problem("--grid", text, _FEWER))
    return tuple(axes), tuple(problems)


def count_points(axes: Sequence[Axis]) -> int:
    """Return how many combinations there are."""
    return math.prod(len(axis.values) for axis in axes)


def points(axes: Sequence[Axis]) -> Iterator[Point]:
    """Go through all combinations, the last axis fastest."""
    paths = [axis.path for axis in axes]
    combinations = itertools.product(*(axis.values for axis in axes))
    for index, combination in enumerate(combinations):
        yield Point(index, dict(zip(paths, combination, strict=True)))


def _pieces(text: str) -> Iterator[Sequence[object]]:
    """Split at commas outside brackets; a range is one piece of many values."""
    depth, start = 0, 0
    for place, character in enumerate(f"{text},"):
        depth += (character in "[{") - (character in "]}")
        if character == "," and depth <= 0:
            yield _piece(text[start:place].strip())
            start = place + 1


def _piece(value: str) -> Sequence[object]:
    match = _RANGE.fullmatch(value)
    if match is None:
        return (value,) if value else ()
    first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
    # One more than allowed is enough to be refused, and can be counted.
    return range(first, last + 1, max(step, 1))[: MOST_POINTS + 1]
