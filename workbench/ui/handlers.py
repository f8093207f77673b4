"""What keys do: ask what has to be asked, call a service, say what came of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from textual.app import App

from ipu_runtime.plan.quantities import plural
from workbench.locations import NoHomeError
from workbench.runs.run_notes import notes_text
from workbench.scripts.script_command import ScriptCommand
from workbench.services.comparison import MarkedRuns
from workbench.services.refused import Refused
from workbench.services.runs import RunRequest, Runs, waiting_titles
from workbench.services.scripts import Scripts, captured, capturing
from workbench.services.session import Session, check_is_model
from workbench.services.started_run import StartedRun
from workbench.services.trust import Untrusted
from workbench.store_json import RecordError
from workbench.ui.dialogs.question import Ask, AskText

Read = TypeVar("Read")
_MOST_NAMED = 6
_STAY, _KEEP, _FORGET = "n", "k", "f"


class Shell(Protocol):
    """What handlers show, apart from questions."""

    def say(self, text: str, bad: bool = False) -> None: ...

    async def show_area(self, name: str) -> None: ...


class Handlers:
    """Goes between keys and services; every refusal is said in the status bar.

    Methods that ask a question are called from a worker of the app, as Textual's
    `push_screen_wait` wants it; all of them on the event loop.
    """

    def __init__(
        self, app: App[Any], shell: Shell, session: Session, runs: Runs
    ) -> None:
        self._app, self._shell = app, shell
        self.session, self.runs = session, runs
        self.scripts = Scripts(session, runs)
        self.marked = MarkedRuns(runs)
        self._leaving = False
        runs.run_ended.connect(self._run_ended)
        runs.failed.connect(lambda text: self.say(text, bad=True))

    def say(self, text: str, bad: bool = False) -> None:
        """Confirm something in the status bar."""
        self._shell.say(text, bad)

    @contextmanager
    def refusals(self, doing: str = "") -> Iterator[None]:
        """Say why something is refused: `cannot run: …`."""
        try:
            yield
        except Refused as refused:
            before = f"cannot {doing}: " if doing else ""
            self.say(f"{before}{refused}", bad=True)

    async def confirm(self, question: str, yes: str, no: str) -> bool:
        """Ask before something is lost; the safe answer has the focus."""
        screen = Ask(question, (("n", no), ("y", yes)))
        return await self._app.push_screen_wait(screen) == "y"

    async def _ask(
        self, question: str, proposal: str, may_be_empty: bool = False
    ) -> str | None:
        screen = AskText(question, proposal, may_be_empty=may_be_empty)
        return await self._app.push_screen_wait(screen)

    async def trusting(self, act: Callable[[], Read], *, slow: bool = False) -> Read:
        """Do something, in a thread if it is slow; ask first about untrusted code."""

        async def do() -> Read:
            return await asyncio.to_thread(act) if slow else act()

        try:
            return await do()
        except Untrusted as untrusted:
            if not await self.confirm(untrusted.question, "trust and run it", "no"):
                raise
            untrusted.allow()
        return await do()

    # The experiment

    def undo(self) -> None:
        """Take back the last change."""
        self.say("undone" if self.session.draft.undo() else "nothing to undo")

    def redo(self) -> None:
        """Bring back what was undone."""
        self.say("done again" if self.session.draft.redo() else "nothing to redo")

    def set_values(self, values: dict[str, Any], what: str) -> None:
        """Set several fields as one change, which one undo takes back."""
        self.session.draft.set(values)
        self.say(f"{what}, u undoes it")

    def copy_command(self) -> None:
        """Copy the command line that does what is on the screen."""
        try:
            script = self.scripts.command()
            command = script.line if script else self.session.command()
        except Refused as refused:
            self.say(f"nothing copied: {refused}", bad=True)
            return
        self._app.copy_to_clipboard(command)
        self.say(f"copied: {command}")

    async def open_model(self) -> None:
        """Put a Keras model of the user's own on the screen, as an experiment."""
        # Built only when asked for.
        from workbench.ui.dialogs.open_model import OpenModel

        source = await self._app.push_screen_wait(OpenModel())
        if source:
            with self.refusals():
                check_is_model(source)
                await self.load(source)

    async def load(self, source: str) -> bool:
        """Put a model, or an experiment in a file, at the end of the list."""
        self.say(f"reading {source}, with TensorFlow if it is new")
        with self.refusals("open"):
            loaded = await asyncio.to_thread(self.session.read, source)
            name = self.session.open(loaded)
            self.say(f"{source} opened as {name}, at the end of the list")
            return True
        return False

    async def read_sources(self) -> None:
        """Read the model and data that a preset names; code among them asks first."""
        session = self.session
        preset = session.draft.preset
        with self.refusals("read"):
            named = await self.trusting(session.sources_to_read)
            if not named:
                return
            text = f"reading {' and '.join(named)}, with TensorFlow if it is new"
            self.say(text)
            loaded = await asyncio.to_thread(session.read, str(preset.path))
            session.take_read(preset, loaded)
            self.say(f"{preset.name} has been read")

    async def configure(self) -> None:
        """Show the fields of the experiment, whose sources may have to be read."""
        await self._shell.show_area("configure")
        self._app.run_worker(self.read_sources())

    async def save(self) -> None:
        """Write the experiment to a preset of the user's own."""
        with self.refusals("save"):
            self.session.valid()
            proposal = f"{self.session.current_preset}-mine"
            name = await self._ask("Save as preset", proposal)
            if not name:
                return
            question = f"Replace your preset {name}?"
            if self.session.is_own(name) and not await self.confirm(
                question, "replace it", "keep it"
            ):
                return
            self.session.save(name)
            self.say(f"saved as {name}, at the end of the list")

    # Runs

    async def start(self) -> None:
        """Start the script or experiment that is worked on, or queue it."""
        with self.refusals("run"):
            run = await self.trusting(self.scripts.start)
            if run is None:
                draft = self.session.draft
                spec = self.session.runnable()
                run = self.runs.start(spec, draft.preset.name, plan=draft.plan)
            await self._started(run)

    async def _started(self, run: StartedRun) -> None:
        if run.waits:
            self.say(f"queued: {len(self.runs.waiting)} waiting")
        else:
            self.say(f"{'resumed' if run.resume else 'started'} {run.preset}")
        await self.open(run.key)

    async def _begin(self, doing: str, prepare: Callable[[], RunRequest]) -> bool:
        """Start a run from the record of another one; tell if it was."""
        with self.refusals(doing):
            request = prepare()
            spec = await self.trusting(request.experiment, slow=True)
            run = self.runs.start(spec, request.preset, request.resume)
            await self._started(run)
            return True
        return False

    async def show_runs(self) -> None:
        """Go to the list of runs."""
        await self._shell.show_area("start")
        self._app.query_one("#runs").focus()

    async def open(self, key: str) -> None:
        """Look at a run."""
        self.runs.chosen = key
        await self._shell.show_area("run")

    async def open_script(self, command: ScriptCommand) -> None:
        """Let F5 run a script."""
        self.scripts.open(command)
        self.say(f"{command.title} opened: F5 runs it")
        await self._shell.show_area("run")

    async def start_script(self, command: ScriptCommand) -> None:
        """Run a script that the command line has named."""
        self.scripts.name(command)
        with self.refusals("run"):
            await self._started(self.scripts.run(command))

    async def again(self, key: str) -> None:
        """Start the experiment or the script of a run once more."""
        if "script" not in self.runs.tables(key):
            await self._begin("run", lambda: self.runs.to_repeat(key))
            return
        with self.refusals("run"):
            run = await self.trusting(lambda: self.scripts.again(key))
            if run is not None:
                await self._started(run)

    async def vary(self, key: str) -> bool:
        """Ask for one field, start the experiment of a run with it; tell if so."""
        view, tables = self.runs.view(key), self.runs.tables(key)
        if view is None or not tables or "script" in tables:
            self.say("there is no experiment to run again", bad=True)
            return False
        question = f"Run {view.preset} again with another value: field=value"
        text = await self._ask(question, "train.learning_rate=")
        if not text:
            return False
        return await self._begin("run", lambda: self.runs.to_repeat(key, [text]))

    async def resume(self, key: str) -> None:
        """Go on with a run that was stopped, killed or failed, or is kept waiting."""
        if self.runs.take_turn(key):
            run = self.runs.find(key)
            self.say(f"{run.preset if run else key} takes its turn")
            await self.open(key)
        else:
            await self._begin("resume", lambda: self.runs.to_resume(key))

    async def evaluate(self, key: str) -> None:
        """Measure a trained model on the test data."""
        await self._begin("evaluate", lambda: self.runs.to_evaluate(key))

    def pause(self) -> None:
        """Let the live run wait, or go on."""
        with self.refusals():
            self.say("paused: p goes on" if self.runs.pause() else "goes on")

    async def stop(self) -> None:
        """Ask, then stop the live run; what is done is kept."""
        with self.refusals():
            active = self.runs.active
            if active is not None and not await self.confirm(
                f"Stop {active.preset}? What it has done so far is kept.",
                "stop it",
                "let it go on",
            ):
                return
            self.say(f"stopping at {self.runs.stop()}")

    async def ask_to_leave(self) -> None:
        """Leave; with a live run ask, stop it and keep its record."""
        active = self.runs.active
        if active is None:
            self._app.exit()
            return
        answer = await self._ask_before_leaving(active)
        if answer == _FORGET:
            self.runs.cancel_waiting()
        if answer != _STAY:
            self.leave()

    async def _ask_before_leaving(self, active: StartedRun) -> str:
        """Ask what becomes of the live run, and of those that wait for it."""
        waiting = [run for run in self.runs.waiting if not run.held]
        if not waiting:
            question = f"{active.preset} is running. Stop it, keep its record, leave?"
            leaves = await self.confirm(question, "stop and leave", "stay")
            return _KEEP if leaves else _STAY
        rows = waiting_titles(waiting)
        if len(rows) > _MOST_NAMED:
            rows[_MOST_NAMED:] = [f"and {len(rows) - _MOST_NAMED} more"]
        waits = "waits" if len(waiting) == 1 else "wait"
        count = plural(len(waiting), "run")
        head = f"{active.preset} is running, and {count} {waits}:"
        answers: Sequence[tuple[str, str]] = (
            (_STAY, "stay"),
            (_KEEP, "stop and leave, keep what waits for next time"),
            (_FORGET, "stop and leave, forget what waits"),
        )
        return await self._app.push_screen_wait(
            Ask("\n  ".join([head, *rows]), answers)
        )

    def leave(self) -> None:
        """Leave as soon as the live run, if any, is stopped; what waits is kept."""
        self.runs.hold_waiting()
        self._leaving = True
        if self.runs.active is None:
            self._app.exit()
        else:
            self.say(f"stopping at {self.runs.stop()}")

    def _run_ended(self, run: StartedRun) -> None:
        self.say(f"{run.preset} {run.view.activity}")
        if self._leaving:
            self._app.exit()

    def take_over_queue(self) -> None:
        """Show the runs that wait since the last visit."""
        if left := self.runs.take_over():
            waits = "waits" if left == 1 else "wait"
            count = plural(left, "run")
            self.say(f"{count} {waits} from last time: r in the list starts")

    def toggle_mark(self, key: str) -> None:
        """Put a run into the comparison, or take it out."""
        self.marked.toggle(key)
        self.say(f"{plural(len(self.marked.keys), 'run')} marked, 5 compares them")

    async def note(self, key: str) -> None:
        """Ask for the note of a run."""
        await self._ask_notes(key, "Note", "note")

    async def rename(self, key: str) -> None:
        """Ask how lists are to call a run; empty is its preset again."""
        await self._ask_notes(key, "Name", "name")

    async def tag(self, key: str) -> None:
        """Ask for the tags of a run."""
        await self._ask_notes(key, "Tags, separated by spaces", "tags")

    async def _ask_notes(self, key: str, question: str, field: str) -> None:
        with self.refusals():
            value = getattr(self.runs.notes_of(key), field)
            now = value if isinstance(value, str) else " ".join(value)
            text = await self._ask(f"{question} of run {key}", now, True)
            if text is not None:
                tags = tuple(text.replace("#", " ").replace(",", " ").split())
                self._annotate(key, **{field: tags if field == "tags" else text})

    def pin(self, key: str) -> None:
        """Keep a run on top of the lists, or let it go."""
        with self.refusals():
            self._annotate(key, pinned=not self.runs.notes_of(key).pinned)

    def _annotate(self, key: str, **changes: Any) -> None:
        notes = self.runs.annotate(key, **changes)
        said = notes_text(notes) or "nothing is said about it now"
        self.say(f"{key}: {said}")

    async def delete(self, key: str) -> None:
        """Ask, then delete a run that has ended, or take one out of the queue."""
        started, stored = self.runs.find(key), self.runs.record(key)
        if started is not None and started.waits:
            question = f"Take {started.preset} out of the queue?"
            answers = "take it out", "let it wait"
        else:
            preset = stored.preset if stored else ""
            question = f"Delete run {key} of {preset}? Its curves, checkpoints and "
            question, answers = question + "log are lost.", ("delete it", "keep it")
        with self.refusals():
            if (stored or started) and not await self.confirm(question, *answers):
                return
            if run_id := self.runs.delete(key):
                self.say(f"{run_id} is deleted")

    # Scripts

    async def ask_script(self) -> None:
        """Put a script on the screen, or the experiment that was captured of one."""
        # Built only when asked for.
        from workbench.ui.dialogs.open_script import AskScript

        last = self.scripts.opened or self.scripts.last
        command = await self._app.push_screen_wait(AskScript(last))
        if command is None:
            return
        if command.path.suffix == ".toml":
            await self._open_captured(str(command.path))
        else:
            await self.open_script(command)

    async def _open_captured(self, path: str) -> None:
        if await self.load(path):
            self.scripts.opened = None
            await self._shell.show_area("configure")

    async def capture(self) -> None:
        """Make an experiment of the script that is looked at."""
        with self.refusals("capture"):
            command = self.scripts.to_capture()
            proposal = str(command.path.with_suffix(".toml"))
            question = f"Run {command.title} up to its first program, and write it to"
            output = await self._ask(question, proposal)
            if not output or not await self.may_write(Path(os.path.expanduser(output))):
                return
            child = await self.trusting(lambda: capturing(command, output))
            self.say(f"capturing {command.title}")
            with child:
                remarks = await asyncio.to_thread(captured, child)
            await self._open_captured(output)
            for remark in remarks:
                self.say(remark)

    async def may_write(self, path: Path) -> bool:
        """Ask before a file of the user's is written over."""
        question = f"{path} exists. Replace it?"
        return not path.exists() or await self.confirm(
            question, "replace it", "keep it"
        )

    def store_draft(self) -> None:
        """Write the changes of the experiment, so that the next visit has them."""
        try:
            self.session.store_draft()
        except (RecordError, NoHomeError) as error:
            self.say(f"the changes cannot be kept for next time: {error}", bad=True)
