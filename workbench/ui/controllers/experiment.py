"""What is done with the experiment: choose, undo, save, copy its command."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from workbench.editing.draft import Draft, value_in
from workbench.editing.draft_store import changes_of, keep_draft, kept_drafts
from workbench.editing.forking import changes_from, take_over
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.overrides import apply_overrides
from workbench.experiment.preset_store import (
    DEFAULT_PRESET,
    Preset,
    PresetError,
    list_presets,
    load_preset,
    save_preset,
)
from workbench.experiment.tables import field_value, spec_to_tables
from workbench.locations import NoHomeError
from workbench.models.model_source import (
    SOURCE_FORMS,
    looks_like_source,
)
from workbench.scripts.captured_script import script_check
from workbench.ui.controllers.trusting import trusts_sources

if TYPE_CHECKING:
    from ipu_runtime.plan.plan import Plan
    from workbench.experiment.experiment_loading import LoadedExperiment
    from workbench.experiment.experiment_spec import ExperimentSpec


_SOURCES = ("model.source", "data.dataset")


class ExperimentView(Protocol):
    """What the experiment needs of the screen."""

    def say(self, text: str, bad: bool = False) -> None: ...

    def experiment_shown(self) -> None: ...

    def copy_to_clipboard(self, text: str) -> None: ...

    async def ask_text(self, question: str, proposal: str) -> str | None: ...

    async def ask_model(self) -> str | None: ...

    async def confirm(self, question: str, yes: str, no: str) -> bool: ...


class ExperimentController:
    """The presets, the changes made to each, and which of them is on the screen.

    Args:
        changes: what the environment changes in every preset, as `a.b=c`.
    """

    def __init__(
        self, view: ExperimentView, preset: str = "", changes: Sequence[str] = ()
    ) -> None:
        self._view = view
        self._changes = changes
        self.presets: list[Preset] = list_presets()
        self._models: list[Preset] = []
        self._drafts: dict[str, Draft] = {}
        self._kept: dict[str, dict[str, Any]] = {}
        """Changes by preset as they are on disk."""
        self.reopened: dict[str, dict[str, Any]] = {}
        """Changes by preset that the last visit has left."""
        self.damaged_drafts: list[str] = []
        self._reopen_drafts()
        names = [item.name for item in self.presets]
        wanted = [name for name in (preset, DEFAULT_PRESET, *names) if name in names]
        self.current_preset = wanted[0] if wanted else ""
        self.pointed_at = ""
        """Field that the form is to show next."""
        self.plans_ready = False
        """Whether plans may be made: the first frame does without."""

    @property
    def draft(self) -> Draft:
        """The experiment that is on the screen, changes of each preset kept apart."""
        name = self.current_preset
        if name not in self._drafts:
            preset = next(item for item in self.presets if item.name == name)
            self._drafts[name] = Draft(preset, script_check(preset))
            for change in self._changes:
                path, _, text = change.partition("=")
                self._drafts[name].set_text(path, text)
        return self._drafts[name]

    def _reopen_drafts(self) -> None:
        try:
            kept, self.damaged_drafts = kept_drafts()
        except NoHomeError:
            return
        listed = {preset.name: preset for preset in self.presets}
        for item in kept:
            preset = listed.get(item.preset.name)
            if preset is None:
                preset = item.preset
                self._models.append(preset)
                self.presets.append(preset)
            draft = Draft(preset)
            draft.set(item.changes)
            self._drafts[preset.name] = draft
            self._kept[preset.name] = self.reopened[preset.name] = changes_of(draft)

    def keep(self) -> None:
        """Write the changes of the experiment on the screen, if they are new."""
        name = self.current_preset
        changes = changes_of(self.draft) if name else {}
        if changes == self._kept.get(name, {}):
            return
        self._kept[name] = changes
        try:
            keep_draft(self.draft)
        except (OSError, NoHomeError) as error:
            self._view.say(f"the changes cannot be kept for next time: {error}", True)

    @property
    def from_last_time(self) -> bool:
        """Whether the experiment is as the last visit has left it, with changes."""
        reopened = self.reopened.get(self.current_preset)
        return reopened is not None and reopened == changes_of(self.draft)

    def changed_presets(self) -> list[str]:
        """Return the presets whose fields have been changed."""
        return [name for name, draft in self._drafts.items() if draft.changed()]

    @property
    def known_plan(self) -> Plan | None:
        """The plan of the experiment, once the first frame is out."""
        return self.draft.plan if self.plans_ready and self.current_preset else None

    @property
    def known_problem(self) -> str:
        """Why the experiment cannot start, once the first frame is out."""
        ready = self.plans_ready and self.current_preset
        return self.draft.why_not_run if ready else ""

    def runnable(self) -> ExperimentSpec | None:
        """Return the experiment if it can start, or say why it cannot."""
        if self.draft.why_not_run:
            self._view.say(f"cannot run: {self.draft.why_not_run}", bad=True)
            return None
        return self.draft.spec

    def valid(self, purpose: str) -> ExperimentSpec | None:
        """Return the experiment if its values are valid, or say what is wrong."""
        if self.draft.spec is None:
            self._view.say(f"cannot {purpose}: {self.draft.why_not_run}", bad=True)
        return self.draft.spec

    def set_values(self, values: Mapping[str, Any], what: str) -> None:
        """Set several fields as one change, which one undo takes back."""
        self.draft.set(values)
        self._after(True, f"{what}, u undoes it", "")

    def fork(
        self, name: str, tables: Mapping[str, Any], remedy: Mapping[str, Any]
    ) -> None:
        """Put the experiment of a run on the screen, with what may mend it."""
        listed = next((item for item in self.presets if item.name == name), None)
        changes = changes_from(listed, tables) if listed else None
        if listed is None or changes is None:
            name = f"{name}-fork-{len(self._models) + 1}"
            self._models.append(Preset(name, Path(name), tables))
            self.presets.append(self._models[-1])
            changes = {}
        self.current_preset = name
        take_over(self.draft, changes)
        self.draft.set(remedy)
        self.pointed_at = next(iter(remedy), "")
        mended = ", ".join(f"{path} is {self.draft.text(path)}" for path in remedy)
        self._view.say(f"the run's experiment; {mended or 'u brings yours back'}")
        self._view.experiment_shown()

    def load_point(self, preset: str, tables: Mapping[str, Any], words: str) -> None:
        """Set the fields that a point of a sweep has otherwise, as one change."""
        if preset not in {item.name for item in self.presets}:
            self._view.say(f"there is no preset {preset} any more", bad=True)
            return
        self.current_preset = preset
        values = {
            path: value_in(tables, path)
            for path in FIELD_OF_PATH
            if value_in(tables, path) != self.draft.value(path)
        }
        self.set_values(values, f"{words} is set")

    def undo(self) -> None:
        """Take back the last change."""
        self._after(self.draft.undo(), "undone", "nothing to undo")

    def redo(self) -> None:
        """Bring back what was undone."""
        self._after(self.draft.redo(), "done again", "nothing to redo")

    def _after(self, done: bool, yes: str, no: str) -> None:
        self._view.say(yes if done else no)
        if done:
            self._view.experiment_shown()

    def copy_command(self, command: str = "") -> None:
        """Copy the command line that runs what is on the screen, or another."""
        reason = "" if command else self._not_a_command()
        if reason:
            self._view.say(f"nothing copied: {reason}", bad=True)
            return
        command = command or self._command()
        self._view.copy_to_clipboard(command)
        self._view.say(f"copied: {command}")

    def _not_a_command(self) -> str:
        """Return why no command line says what is on the screen; empty if one does."""
        preset, draft = self.draft.preset, self.draft
        tables, wrong = apply_overrides(preset.tables, draft.overrides())
        lost = [p for p in draft.changed() if value_in(tables, p) != draft.value(p)]
        reasons = [str(item) for item in (*preset.problems, *wrong)]
        reasons += [f"{path} cannot be written as a change" for path in lost]
        return reasons[0] if reasons else ""

    def _command(self) -> str:
        preset = self.draft.preset
        named = str(preset.path) if preset in self._models else preset.name
        words = ["ipu-workbench", "run", named]
        for change in self.draft.overrides():
            words += ["--set", change]
        return shlex.join(words)

    async def open_model(self) -> None:
        """Put a Keras model of the user's own on the screen, as an experiment."""
        source = await self._view.ask_model()
        if not source:
            return
        if not looks_like_source(source):
            self._view.say(f"{source} names no model: {SOURCE_FORMS}", bad=True)
            return
        await self.load(source)

    async def load(self, source: str) -> bool:
        """Put a model, or an experiment in a file, at the end of the list."""
        self._view.say(f"reading {source}, with TensorFlow if it is new")
        try:
            loaded = await _loaded(source)
        except PresetError as error:
            self._view.say(f"cannot open: {error}", bad=True)
            return False
        if loaded.spec is None:
            reasons = "; ".join(str(problem) for problem in loaded.problems)
            self._view.say(f"cannot open: {reasons}", bad=True)
            return False
        taken = {item.name for item in self.presets}
        name = loaded.preset.name
        name = name if name not in taken else f"{name}-{len(self._models) + 1}"
        self._models.append(replace(loaded.preset, name=name, tables=loaded.tables))
        self.presets.append(self._models[-1])
        self.current_preset = name
        self._view.experiment_shown()
        self._view.say(f"{source} opened as {name}, at the end of the list")
        return True

    async def read_sources(self) -> None:
        """Read the model and data that a preset names; code among them asks first."""
        preset, draft = self.draft.preset, self.draft
        texts = [field_value(preset.tables, path) for path in _SOURCES]
        named = [text for text in texts if isinstance(text, str) and text]
        wrong = {item.where for item in draft.problems}
        if not wrong.intersection(_SOURCES):
            return
        if not any(map(looks_like_source, named)):
            return
        if not await trusts_sources(self._view, preset.name, preset.tables):
            return
        self._view.say(f"reading {' and '.join(named)}, with TensorFlow if it is new")
        loaded = await _loaded(str(preset.path))
        if loaded.spec is None:
            reasons = "; ".join(str(problem) for problem in loaded.problems)
            self._view.say(f"cannot read: {reasons}", bad=True)
            return
        place = self.presets.index(preset)
        self.presets[place] = replace(preset, tables=loaded.tables)
        self._drafts.pop(preset.name, None)
        self._view.experiment_shown()
        self._view.say(f"{preset.name} has been read")

    async def save(self) -> None:
        """Write the experiment to a preset of the user's own."""
        spec = self.valid("save")
        if spec is None:
            return
        proposal = f"{self.current_preset}-mine"
        name = await self._view.ask_text("Save as preset", proposal)
        if not name:
            return
        replaces = any(p.name == name and not p.packaged for p in self.presets)
        if replaces and not await self._view.confirm(
            f"Replace your preset {name}?", "replace it", "keep it"
        ):
            return
        tables = spec_to_tables(spec)
        tables["experiment"]["group"] = "Own presets"
        try:
            save_preset(name, tables, overwrite=replaces)
            load_preset(name)
        except PresetError as error:
            self._view.say(f"cannot save: {error}", bad=True)
            return
        self.presets = [*list_presets(), *self._models]
        self._view.experiment_shown()
        self._view.say(f"saved as {name}, at the end of the list")


async def _loaded(source: str) -> LoadedExperiment:
    # It loads the planner, which the first frame does without.
    from workbench.experiment.experiment_loading import load_experiment

    return await asyncio.to_thread(load_experiment, source)
