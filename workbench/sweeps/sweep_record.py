"""What a sweep leaves behind, so that it can go on after any interruption."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from workbench.locations import sweeps_directory
from workbench.runs.event_json import to_line
from workbench.runs.whole_directories import claim_directory, remove_leftovers
from workbench.store_files import (
    exists,
    make_root,
    names_in,
    read_file,
    status_of,
)
from workbench.store_json import (
    RecordError,
    UnknownRecord,
    WriterLock,
    append_line,
    explained,
    read_lines,
    readable,
    replace_json,
    safe_name,
)
from workbench.sweeps.halving import Halving
from workbench.sweeps.sweep_grid import Axis
from workbench.sweeps.sweep_point import PointResult

_MOST_OF_A_NAME = 10_000
_MOST_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class SweepDefinition:
    """What a sweep goes through; together with the points done it is all of it."""

    preset: str
    tables: Mapping[str, Any]
    """The experiment that every point starts from."""
    axes: tuple[Axis, ...]
    trained: bool
    """Whether points are trained; otherwise they are only planned."""
    halving: Halving | None = None
    """How points are stopped early; None if all are trained to their end."""

    def named_values(self) -> Iterator[dict[str, Any]]:
        """Return the experiment, and every value of an axis by itself as tables."""
        yield dict(self.tables)
        for axis in self.axes:
            section, _, key = axis.path.partition(".")
            yield from ({section: {key: value}} for value in axis.values)


class SweepRecord:
    """The directory of a sweep, open for writing by this process alone."""

    def __init__(
        self, directory: Path, definition: SweepDefinition, lock: WriterLock
    ) -> None:
        self.directory = directory
        self.group = directory.name
        self.definition = definition
        self._lock = lock

    @classmethod
    def create(cls, definition: SweepDefinition, group: str = "") -> SweepRecord:
        """Begin a sweep under a name that no other sweep has."""
        if group and not safe_name(group):
            raise RecordError(f"group {group!r}: use letters, digits, '.', '_' and '-'")
        root = sweeps_directory()
        with explained(root):
            make_root(root)
        remove_leftovers(root)
        stem = group or _name_for(definition.preset)

        def begin(directory: Path) -> None:
            replace_json(directory / "sweep.json", asdict(definition))

        for count in range(1, 2 if group else _MOST_OF_A_NAME):
            directory = root / (stem if count == 1 else f"{stem}-{count:02}")
            lock = claim_directory(directory, begin)
            if lock is not None:
                return cls(directory, definition, lock)
        if group:
            raise RecordError(
                f"the sweep {group!r} exists: choose another --group, or continue it "
                f"with --resume {group}"
            )
        raise RecordError(f"cannot find a free name for a sweep in {root}")

    @classmethod
    def reopen(cls, group: str) -> SweepRecord:
        """Open a sweep that was interrupted, or is complete."""
        directory = sweep_directory(group)
        return cls(
            directory, _read_definition(directory), WriterLock(directory / "lock")
        )

    def add(self, results: Iterable[PointResult]) -> None:
        """Keep results; they are in the file when this returns."""
        self._append("points.jsonl", {"event": "point"}, results)

    def add_rung(self, epoch: int, results: Iterable[PointResult]) -> None:
        """Keep how points stand that wait for others at the end of an epoch."""
        self._append("rungs.jsonl", {"event": "rung", "epoch": epoch}, results)

    def rung(self, epoch: int) -> list[PointResult]:
        """Return how the points stood that have reached an epoch."""
        rows = read_lines(self.directory / "rungs.jsonl")
        return _results(row for row in rows if row.get("epoch") == epoch)

    def _append(
        self, file: str, about: Mapping[str, Any], results: Iterable[PointResult]
    ) -> None:
        lines = "".join(to_line({**about, **asdict(result)}) for result in results)
        append_line(self.directory / file, lines)

    def results(self) -> list[PointResult]:
        """Return the points that are done."""
        return stored_sweep(self.group)[1]

    def close(self) -> None:
        """Let others continue the sweep."""
        self._lock.release()


def list_sweeps() -> list[str]:
    """Return the names of all sweeps, newest first."""
    root = sweeps_directory()
    names = filter(safe_name, names_in(root))
    found = [(status_of(root / name / "sweep.json"), name) for name in names]
    by_age = sorted((-status.st_mtime, name) for status, name in found if status)
    return [name for _, name in by_age]


def stored_sweep(group: str) -> tuple[SweepDefinition, list[PointResult]]:
    """Return a sweep and its points without keeping others from going on with it."""
    directory = sweep_directory(group)
    definition = _read_definition(directory)
    paths = {axis.path for axis in definition.axes}
    return definition, [
        result for result in read_results(directory) if result.values.keys() == paths
    ]


def sweep_directory(group: str) -> Path:
    """Return the directory of an existing sweep."""
    directory = sweeps_directory() / group
    with readable(directory):
        there = safe_name(group) and exists(directory / "sweep.json")
    if not there:
        raise UnknownRecord(f"there is no sweep {group!r} in {sweeps_directory()}")
    return directory


def read_results(directory: Path) -> list[PointResult]:
    """Return the points of a sweep that are done, each once."""
    return _results(read_lines(directory / "points.jsonl"))


def _results(rows: Iterable[Mapping[str, Any]]) -> list[PointResult]:
    results: dict[int, PointResult] = {}
    for row in rows:
        try:
            result = PointResult(
                index=int(row["index"]),
                values=dict(row["values"]),
                metrics=_numbers(row["metrics"]),
                problem=str(row["problem"]),
                run_id=str(row["run_id"]),
                stages=tuple(row["stages"]),
                changes=tuple(map(str, row.get("changes", ()))),
                training=tuple(map(str, row.get("training", ()))),
                batch_size=int(row.get("batch_size", 0)),
                stopped_epoch=int(row.get("stopped_epoch", 0)),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
        results[result.index] = result
    return list(results.values())


def _numbers(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics, without any that is not a number."""
    return {
        name: value
        for name, value in metrics.items()
        if value is None or type(value) in (int, float)
    }


def _name_for(preset: str) -> str:
    time = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = Path(preset).stem[:40]
    return f"{name}-{time}" if safe_name(name) else f"sweep-{time}"


def _read_definition(directory: Path) -> SweepDefinition:
    path = directory / "sweep.json"
    try:
        value = json.loads(read_file(path, _MOST_BYTES))
        return SweepDefinition(
            preset=str(value["preset"]),
            tables=dict(value["tables"]),
            axes=_axes(value["axes"]),
            trained=bool(value["trained"]),
            halving=_halving(value.get("halving")),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RecordError(f"cannot read {path}: {reason}") from error


def _halving(row: Mapping[str, Any] | None) -> Halving | None:
    return Halving(str(row["objective"]), int(row["budget"])) if row else None


def _axes(rows: Sequence[Mapping[str, Any]]) -> tuple[Axis, ...]:
    return tuple(Axis(str(row["path"]), tuple(row["values"])) for row in rows)
