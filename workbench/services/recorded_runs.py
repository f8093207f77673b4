"""What is done with the record of a run: go on, run again, evaluate, note, delete.

Plain functions that app and commands call alike: a run is what `find` or a list gives.
Those that may run code of the user's say so with `Untrusted`, and may take long: call
them on a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from workbench.runs.events import RunStatus
from workbench.runs.run_notes import RunNotes, change_notes, delete_run, read_notes
from workbench.runs.run_store import StoredRun, open_run
from workbench.scripts.script_command import ScriptCommand, recorded_command
from workbench.services.refused import Refused
from workbench.store_files import names_in
from workbench.store_json import RecordError, UnknownRecord, safe_name

if TYPE_CHECKING:
    from workbench.experiment.experiment_spec import ExperimentSpec

Tell = Callable[[str], None]


def _nobody(text: str) -> None:
    """Be told, and say nothing."""


def find(name: str, *, damaged_too: bool = False) -> StoredRun:
    """Return the run of an id, of the unique beginning of one, or the `latest` one."""
    try:
        return open_run(name, damaged_too=damaged_too)
    except UnknownRecord as error:
        raise Refused(str(error), "see: ipu-workbench runs list") from error


def experiment_to_resume(
    run: StoredRun, *, trusted: bool = False, tell: Tell = _nobody
) -> ExperimentSpec:
    """Return the experiment that a run goes on with, its sources read again if need be.

    Args:
        run: One that was stopped or killed, or has failed.
        trusted: Whether the user says that its code may run.
        tell: Told when TensorFlow is loaded.
    """
    where = f"run {run.run_id}"
    _check_experiment(run.tables, where)
    if run.status is RunStatus.FINISHED:
        raise Refused("is finished: there is nothing to resume", where=where)
    _check_ended(run, "resumed")
    tables = run.tables_to_go_on_with()
    _check_experiment(tables, where)
    return _experiment(tables, where, trusted, tell)


def experiment_to_repeat(
    run_id: str,
    tables: Mapping[str, Any],
    changes: Iterable[str] = (),
    *,
    trusted: bool = False,
    tell: Tell = _nobody,
) -> ExperimentSpec:
    """Return the experiment of a run to start once more, with changes as `a.b=c`."""
    # Late, as below.
    from workbench.experiment.overrides import apply_overrides

    where = f"run {run_id}" if run_id else ""
    _check_experiment(tables, where)
    tables, problems = apply_overrides(tables, list(changes))
    if problems:
        raise Refused.for_problems(problems)
    return _experiment(tables, where, trusted, tell)


def experiment_to_evaluate(
    run: StoredRun, *, trusted: bool = False, tell: Tell = _nobody
) -> ExperimentSpec:
    """Return the experiment that only measures a trained model on the test data."""
    where = f"run {run.run_id}"
    _check_experiment(run.tables, where)
    _check_ended(run, "evaluated")
    spec = _experiment(run.tables, where, trusted, tell)
    if not names_in(run.directory / "checkpoints"):
        raise Refused("has left no checkpoint to evaluate", where=where)
    done = run.summary.get("epochs")
    done = done if type(done) is int and done > 0 else spec.train.epochs
    return replace(spec, train=replace(spec.train, evaluate=True, epochs=done))


def script_to_repeat(run: StoredRun) -> ScriptCommand:
    """Return how the script of a run is run once more."""
    command = recorded_command(run.script)
    if command is None:
        raise Refused("its record does not name it")
    if "overridden" in run.summary:
        hint = "run its captured experiment"
        raise Refused("settings of it were overridden from outside", hint)
    return command


def _check_experiment(tables: Mapping[str, Any], where: str) -> None:
    if "script" in tables:
        hint = "run it again: ipu-workbench exec, or a in the app"
        raise Refused("is a run of a script", hint, where)


def _check_ended(run: StoredRun, done: str) -> None:
    if run.live:
        hint = f"only a run that has ended can be {done}"
        raise Refused(f"is {run.status.value}", hint, f"run {run.run_id}")


def _experiment(
    tables: Mapping[str, Any], where: str, trusted: bool, tell: Tell
) -> ExperimentSpec:
    # Late: they load the planner, which a list of runs and the first frame of the app
    # do without.
    from workbench.experiment.experiment_loading import (
        recorded_experiment,
        unknown_content,
    )
    from workbench.services.trust import check_sources

    try:
        if unknown := [*unknown_content(tables)]:
            raise Refused.for_problems(unknown)
        check_sources("the record", tables, trusted)
        spec, problems = recorded_experiment(tables, tell, trust=trusted)
        if spec is None:
            raise Refused.for_problems(problems)
    except Refused as refused:
        refused.file = where
        raise
    return spec


def delete(run: StoredRun) -> None:
    """Delete the record of a run that no process is working on."""
    if run.live:
        hint = "stop it first"
        raise Refused(f"is {run.status.value}", hint, f"run {run.run_id}")
    try:
        delete_run(run)
    except RecordError as error:
        raise Refused(str(error)) from error


def annotate(run: StoredRun, **changes: Any) -> RunNotes:
    """Say something else about a run: `name`, `note`, `tags`, `pinned`."""
    check_tags(changes.get("tags", ()))
    try:
        return change_notes(run.directory, **changes)
    except RecordError as error:
        raise Refused(str(error)) from error


def check_tags(tags: Iterable[str]) -> None:
    """Refuse what is no tag."""
    for tag in tags:
        if not safe_name(tag):
            hint = "use letters, digits, '.', '_' and '-'"
            raise Refused(f"{tag!r} is no tag", hint, "TAG")


def notes_of(run: StoredRun) -> RunNotes:
    """Return what is said about a run."""
    return read_notes(run.directory)
