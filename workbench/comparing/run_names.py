"""Names that tell compared runs apart: by what differs, then by time."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from ipu_runtime.plan.quantities import plural
from workbench.experiment.field_differences import FieldDifference
from workbench.experiment.field_values import value_text
from workbench.runs.run_store import StoredRun

BY_TIME = "begun"
_DAY = "%d %b"
_TELLING = (
    "preset",
    "script.arguments",
    "model",
    "pipeline.stages",
    "pipeline.schedule",
    "data.batch_size",
    "train.learning_rate",
    "train.optimizer",
    "execution.gradient_accumulation",
)
"""What people know runs by, before anything else that tells them apart as well."""


@dataclass(frozen=True, slots=True)
class RunNames:
    """What to call every run."""

    paths: tuple[str, ...]
    """Fields whose values the names are made of, in order."""
    names: tuple[str, ...]
    """Values, with the name of the field where a number alone says nothing."""
    values: tuple[str, ...]
    """The same without names of fields, for where those stand beside it."""
    begun: tuple[str, ...]
    """When each run began, in as few words as tell them apart."""
    day: str
    """The day on which all of them began; empty if there are several."""


def value_words(path: str, value: Any) -> str:
    """Return a setting for people to read; nothing is left out."""
    if value is None:
        return "-"
    if path == "pipeline.stages" and isinstance(value, list | tuple):
        return _stages_words(value)
    if path == "script.arguments" and isinstance(value, list | tuple):
        return shlex.join(str(item) for item in value) or "none"
    return value_text(value) or '""'


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """Return the shortest end of every path that no other path ends with."""
    names = {}
    for path in paths:
        parts = path.split(".")
        tails = (".".join(parts[at:]) for at in range(len(parts) - 1, -1, -1))
        others = [f".{other}" for other in paths if other != path]
        names[path] = next(
            (tail for tail in tails if not any(o.endswith(f".{tail}") for o in others)),
            path,
        )
    return names


def name_runs(
    runs: Sequence[StoredRun],
    settings: Sequence[FieldDifference],
    models: Sequence[str],
) -> RunNames:
    """Name runs by the fewest settings that tell them apart, else by time too."""
    candidates: Mapping[str, tuple[str, ...]] = {
        **{
            item.path: tuple(value_words(item.path, value) for value in item.values)
            for item in settings
        },
        "model": tuple(models),
        "preset": tuple(run.preset for run in runs),
    }
    days = {_local(run.created, _DAY) for run in runs}
    day = days.pop() if len(days) == 1 else ""
    begun = _times(runs, "" if day else f"{_DAY} ")
    paths: list[str] = []
    columns: list[tuple[str, ...]] = []
    while (better := _next_best(candidates, columns, len(runs))) is not None:
        paths.append(better)
        columns.append(candidates[better])
    if not columns or _distinct(columns, len(runs)) < len(runs):
        paths.append(BY_TIME)
        columns.append(begun)
    short = short_names(paths)
    values = list(zip(*columns, strict=True))
    names = [
        [
            *([] if "preset" in paths else _odd_preset(run, runs)),
            *(
                _named(short[path], text)
                for path, text in zip(paths, texts, strict=True)
                if text != "-"
            ),
        ]
        for run, texts in zip(runs, values, strict=True)
    ]
    return RunNames(
        tuple(paths),
        tuple(map(", ".join, names)),
        tuple(map(", ".join, values)),
        begun,
        day,
    )


def _odd_preset(run: StoredRun, runs: Sequence[StoredRun]) -> list[str]:
    """Return the preset of a run that does not share that of most others."""
    common = Counter(other.preset for other in runs).most_common(1)[0][0]
    return [] if run.preset == common else [run.preset]


def _named(name: str, text: str) -> str:
    says_itself = name == BY_TIME or any(sign.isalpha() for sign in text)
    return text if says_itself else f"{name} {text}"


def _next_best(
    candidates: Mapping[str, tuple[str, ...]],
    columns: Sequence[tuple[str, ...]],
    count: int,
) -> str | None:
    """Return what tells most runs apart that are not yet; of equals the best known."""
    now = _distinct(columns, count)
    gains = {
        path: _distinct([*columns, texts], count) - now
        for path, texts in candidates.items()
    }
    useful = [path for path, gain in gains.items() if gain > 0]
    order = [*_TELLING, *candidates]
    return min(useful, key=lambda path: (-gains[path], order.index(path)), default=None)


def _distinct(columns: Sequence[tuple[str, ...]], count: int) -> int:
    return len(set(zip(*columns, strict=True))) if columns else min(count, 1)


def _times(runs: Sequence[StoredRun], day: str) -> tuple[str, ...]:
    for form in (f"{day}%H:%M", f"{day}%H:%M:%S"):
        texts = tuple(_local(run.created, form) for run in runs)
        if len(set(texts)) == len(texts):
            return texts
    return tuple(run.run_id for run in runs)


def _local(text: str, form: str) -> str:
    try:
        return datetime.fromisoformat(text).astimezone().strftime(form)
    except ValueError:
        return text


def _stages_words(stages: Sequence[Any]) -> str:
    """Return how many layers every stage has: `2 stages 3+4`."""
    if not stages:
        return "no pipeline"
    runs = [len(list(members)) for _, members in groupby(stages)]
    if len(runs) != len(set(map(str, stages))):
        return value_text(list(stages))
    return f"{plural(len(runs), 'stage')} {'+'.join(map(str, runs))}"
