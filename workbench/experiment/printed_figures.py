"""What a document prints of its run, and whether an experiment is that run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ipu_runtime.plan.config.field import Affects
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.experiment_spec import Figure
from workbench.experiment.field_differences import differences
from workbench.experiment.preset_store import (
    Preset,
    PresetError,
    list_presets,
    load_preset,
)
from workbench.experiment.tables import spec_to_tables

_NAMES = tuple(Figure.__dataclass_fields__)
_NEITHER = ("experiment.seed", "train.epochs", "data.test_samples")
"""No document states its seed; figures are of single epochs, and of training."""
_LEARNING = frozenset({Affects.NUMERICS, Affects.DEVICE})
_TIME = frozenset({Affects.TIME, Affects.DEVICE})
_NO_LEARNING = ("execution.system",)
"""The same is learned on any of them."""
_SHOWN = ("execution.metric_reduction",)
"""Not learned otherwise, but shown otherwise."""


@dataclass(frozen=True, slots=True)
class PrintedFigures:
    """The figures of a document, and what keeps an experiment from being its run."""

    figures: tuple[Figure, ...] = ()
    learning_differs: tuple[str, ...] = ()
    """Fields that are not the document's, and change loss and accuracy."""
    time_differs: tuple[str, ...] = ()
    """Fields that are not the document's, and change times."""

    @property
    def comparable(self) -> tuple[Figure, ...]:
        """The figures that those of the experiment may be compared with, by epoch."""
        kept = {"epoch": True}
        kept |= dict.fromkeys(("loss", "accuracy"), not self.learning_differs)
        kept |= dict.fromkeys(("step_us", "seconds"), not self.time_differs)
        return tuple(
            Figure(**{name: getattr(item, name) for name in kept if kept[name]})
            for item in self.figures
            if not (self.learning_differs and self.time_differs)
        )

    def of(self, epoch: int, name: str) -> float | None:
        """Return a figure of an epoch, where ours may be compared with it."""
        values = [getattr(row, name) for row in self.comparable if row.epoch == epoch]
        return values[0] if values else None

    @property
    def why_not(self) -> str:
        """Say what is not compared, and which fields are the reason; mostly empty."""
        if not self.figures or not (self.learning_differs or self.time_differs):
            return ""
        if not self.learning_differs:
            return f"times are not the document's: {_differ(self.time_differs)}"
        both = dict.fromkeys((*self.learning_differs, *self.time_differs))
        return f"not the document's run: {_differ(tuple(both))}"


def printed_figures(tables: Mapping[str, Any], preset: str = "") -> PrintedFigures:
    """Return what the document prints that an experiment is from.

    Figures belong to the experiment that they came with: the packaged preset that has
    them, also under the name of a copy, and else the file that the run was started
    from. Nothing else tells what they were measured with.

    Args:
        tables: The experiment as it is now, or was run.
        preset: Name or path of what it was made from.
    """
    figures = figures_in(tables)
    if not figures:
        return PrintedFigures()
    own = _whole(tables)
    originals = [tables for known, tables in _documents() if known == figures]
    if not originals:
        originals = _tables_of(preset)
    if not originals:
        return PrintedFigures(figures)
    found = [PrintedFigures(figures, *_differing(own, other)) for other in originals]
    return min(found, key=lambda one: len(one.learning_differs + one.time_differs))


def figures_in(tables: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Return the document's figures, whatever else is wrong with the experiment."""
    experiment = tables.get("experiment")
    rows = experiment.get("figures") if isinstance(experiment, Mapping) else None
    return tuple(
        Figure(**{name: row[name] for name in _NAMES if _is_number(row.get(name))})
        for row in (rows if isinstance(rows, list | tuple) else ())
        if isinstance(row, Mapping) and type(row.get("epoch")) is int
    )


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


@lru_cache(maxsize=1)
def _documents() -> tuple[tuple[tuple[Figure, ...], Mapping[str, Any]], ...]:
    """Return the figures of the packaged presets, each with its whole experiment."""
    known = [preset for preset in list_presets() if preset.packaged]
    return tuple(
        (figures, _whole(preset.tables))
        for preset in known
        if (figures := figures_in(preset.tables))
    )


def _tables_of(preset: str) -> list[Mapping[str, Any]]:
    try:
        found: Preset = load_preset(preset)
    except PresetError:
        return []
    return [_whole(found.tables)]


def _whole(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an experiment with every default written out."""
    # Late, because it loads NumPy, and the app's first frame is drawn without.
    from workbench.experiment.validation import understood

    return spec_to_tables(understood(tables))


def _differing(
    own: Mapping[str, Any], document: Mapping[str, Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the fields that change what is learned, and those that change times."""
    learning: dict[str, None] = {}
    time: dict[str, None] = {}
    for item in differences(own, document):
        path, field = item.path, FIELD_OF_PATH.get(item.path)
        if path.startswith("model."):
            learning["model"] = time["model"] = None
        elif field is not None and path not in _NEITHER:
            affects = set(field.affects)
            if path in _SHOWN or (affects & _LEARNING and path not in _NO_LEARNING):
                learning[path] = None
            if affects & _TIME:
                time[path] = None
    return tuple(learning), tuple(time)


def _differ(paths: tuple[str, ...]) -> str:
    shown = ", ".join(paths[:3])
    more = len(paths) - 3
    if more > 0:
        shown += f" and {more} more"
    return f"{shown} {'differ' if len(paths) > 1 else 'differs'}"
