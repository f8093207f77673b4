"""The experiment at hand: presets, a draft of each with undo, models, saving."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.editing.draft import Draft, check_tables
from workbench.editing.draft_store import keep_draft, kept_drafts
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.field_differences import differences
from workbench.experiment.overrides import apply_overrides
from workbench.experiment.preset_store import (
    DEFAULT_PRESET,
    Preset,
    PresetError,
    list_presets,
    load_preset,
    save_preset,
)
from workbench.experiment.tables import field_value, spec_to_tables, value_in
from workbench.locations import NoHomeError
from workbench.models.model_source import SOURCE_FORMS, looks_like_source
from workbench.scripts.captured_script import script_check
from workbench.services.refused import Refused
from workbench.services.signal import Signal
from workbench.services.trust import check_sources

if TYPE_CHECKING:
    from ipu_runtime.plan.plan import Plan
    from workbench.experiment.experiment_loading import LoadedExperiment
    from workbench.experiment.experiment_spec import ExperimentSpec

_SOURCES = ("model.source", "data.dataset")


class Session:
    """The presets, the changes made to each, and which of them is worked on.

    Its methods are called on one thread; `read` and `sources_to_read` may be called on
    another one, since they load TensorFlow. `experiment_changed` is emitted after every
    change of the current draft, and when another experiment becomes the current one.
    """

    def __init__(self, preset: str = "", changes: Sequence[str] = ()) -> None:
        """Open what the last visit has left.

        Args:
            preset: The one to begin with.
            changes: What the environment changes in every preset, as `a.b=c`.
        """
        self.experiment_changed: Signal[Session] = Signal()
        self._changes = changes
        self.presets: list[Preset] = list_presets()
        self._models: list[Preset] = []
        self._drafts: dict[str, Draft] = {}
        self._stored: dict[str, Mapping[str, Any]] = {}
        """Changes by preset as they are on disk."""
        self._reopened: dict[str, Mapping[str, Any]] = {}
        """Changes by preset that the last visit has left."""
        self.damaged_drafts: list[str] = []
        self._reopen_drafts()
        names = [item.name for item in self.presets]
        wanted = [name for name in (preset, DEFAULT_PRESET, *names) if name in names]
        self.current_preset = wanted[0] if wanted else ""
        self.pointed_at = ""
        """Field that a form is to show next."""
        self.plans_ready = False
        """Whether plans may be made: the app's first frame does without."""

    @property
    def draft(self) -> Draft:
        """The current experiment, changes of each preset kept apart."""
        name = self.current_preset
        if name not in self._drafts:
            preset = next(item for item in self.presets if item.name == name)
            draft = Draft(preset, script_check(preset))
            for change in self._changes:
                path, _, text = change.partition("=")
                draft.set_text(path, text)
            self._add(draft)
        return self._drafts[name]

    def _add(self, draft: Draft) -> None:
        self._drafts[draft.preset.name] = draft
        draft.on_change = self._changed

    def _changed(self) -> None:
        self.experiment_changed.emit(self)

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
            self._add(draft)
            self._stored[preset.name] = self._reopened[preset.name] = draft.changes()

    def store_draft(self) -> None:
        """Write the changes of the current experiment, if they are new.

        Raises:
            RecordError, NoHomeError: They cannot be written, and go with the process.
        """
        name = self.current_preset
        changes = self.draft.changes() if name else {}
        if changes != self._stored.get(name, {}):
            self._stored[name] = changes
            keep_draft(self.draft)

    @property
    def from_last_time(self) -> bool:
        """Whether the experiment is as the last visit has left it, with changes."""
        reopened = self._reopened.get(self.current_preset)
        return reopened is not None and reopened == self.draft.changes()

    def changed_presets(self) -> list[str]:
        """Return the presets whose fields have been changed."""
        return [name for name, draft in self._drafts.items() if draft.changes()]

    @property
    def known_plan(self) -> Plan | None:
        """The plan of the experiment, once plans may be made."""
        return self.draft.plan if self.plans_ready and self.current_preset else None

    @property
    def known_problem(self) -> str:
        """Why the experiment cannot start, once plans may be made."""
        ready = self.plans_ready and self.current_preset
        return self.draft.why_not_run if ready else ""

    def runnable(self) -> ExperimentSpec:
        """Return the experiment; refuse what the device does not allow."""
        problem, spec = self.draft.blocking, self.draft.spec
        if problem is not None or spec is None:
            raise Refused.for_problems([problem] if problem else self.draft.problems)
        return spec

    def valid(self) -> ExperimentSpec:
        """Return the experiment; refuse values that are wrong."""
        return self.draft.spec or self.runnable()

    def choose(self, name: str) -> None:
        """Work on another preset."""
        self.current_preset = name
        self._changed()

    def fork(
        self, name: str, tables: Mapping[str, Any], remedy: Mapping[str, Any]
    ) -> None:
        """Work on the experiment of a run, with what may repair it."""
        listed = next((item for item in self.presets if item.name == name), None)
        changes = changes_from(listed, tables) if listed else None
        if listed is None or changes is None:
            name = f"{name}-fork-{len(self._models) + 1}"
            self._append(Preset(name, Path(name), tables))
            changes = {}
        self.current_preset = name
        take_over(self.draft, changes)
        self.draft.set(remedy)
        self.pointed_at = next(iter(remedy), "")
        self._changed()

    def load_point(self, preset: str, tables: Mapping[str, Any]) -> None:
        """Set the fields that a point of a sweep has otherwise, as one change."""
        if preset not in {item.name for item in self.presets}:
            raise Refused(f"there is no preset {preset} any more")
        self.current_preset = preset
        self.draft.set(
            {
                item.path: item.values[0]
                for item in differences(tables, self.draft.tables, described=True)
                if item.path in FIELD_OF_PATH
            }
        )
        self._changed()

    def command(self) -> str:
        """Return the command line that runs the experiment; refuse if there is none."""
        preset, draft = self.draft.preset, self.draft
        tables, wrong = apply_overrides(preset.tables, draft.overrides())
        lost = [p for p in draft.changes() if value_in(tables, p) != draft.value(p)]
        for problem in (*preset.problems, *wrong):
            raise Refused.for_problems([problem])
        for path in lost:
            raise Refused(f"{path} cannot be written as a change")
        named = str(preset.path) if preset in self._models else preset.name
        words = ["ipu-workbench", "run", named]
        for change in draft.overrides():
            words += ["--set", change]
        return shlex.join(words)

    def read(self, source: str) -> LoadedExperiment:
        """Read an experiment in a file, or a model, for the first time with TensorFlow.

        It may be called on any thread.
        """
        # It loads the planner, which the app's first frame does without.
        from workbench.experiment.experiment_loading import load_experiment

        try:
            loaded = load_experiment(source)
        except PresetError as error:
            raise Refused.for_problems([error.as_problem()]) from error
        if loaded.spec is None:
            raise Refused.for_problems(loaded.problems)
        return loaded

    def open(self, loaded: LoadedExperiment) -> str:
        """Work on what was read, at the end of the presets; return its name there."""
        taken = {item.name for item in self.presets}
        name = loaded.preset.name
        name = name if name not in taken else f"{name}-{len(self._models) + 1}"
        self._append(replace(loaded.preset, name=name, tables=loaded.tables))
        self.choose(name)
        return name

    def _append(self, preset: Preset) -> None:
        self._models.append(preset)
        self.presets.append(preset)

    def sources_to_read(self) -> list[str]:
        """Return the model and data that the preset names and nobody has read yet.

        Raises:
            Untrusted: They are code that the user has to allow first.
        """
        preset, draft = self.draft.preset, self.draft
        texts = [field_value(preset.tables, path) for path in _SOURCES]
        named = [text for text in texts if isinstance(text, str) and text]
        wrong = {item.where for item in draft.problems}
        if not wrong.intersection(_SOURCES) or not any(map(looks_like_source, named)):
            return []
        check_sources(preset.name, preset.tables)
        return named

    def take_read(self, preset: Preset, loaded: LoadedExperiment) -> None:
        """Work on a preset whose sources have been read."""
        place = self.presets.index(preset)
        self.presets[place] = replace(preset, tables=loaded.tables)
        self._drafts.pop(preset.name, None)
        self._changed()

    def is_own(self, name: str) -> bool:
        """Tell whether the user has a preset of that name, which saving replaces."""
        return any(item.name == name and not item.packaged for item in self.presets)

    def save(self, name: str) -> None:
        """Write the experiment to a preset of the user's own."""
        tables = spec_to_tables(self.valid())
        tables["experiment"]["group"] = "Own presets"
        try:
            save_preset(name, tables, overwrite=self.is_own(name))
            load_preset(name)
        except PresetError as error:
            raise Refused.for_problems([error.as_problem()]) from error
        self.presets = [*list_presets(), *self._models]
        self._changed()


def check_is_model(source: str) -> None:
    """Refuse a text that names no model."""
    if not looks_like_source(source):
        raise Refused(f"{source} names no model", SOURCE_FORMS)


def changes_from(preset: Preset, tables: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields that make a preset the experiment; None if fields cannot."""
    spec, _ = check_tables(preset.tables)
    if spec is None:
        return None
    found = differences(tables, spec_to_tables(spec))
    if any(item.path not in FIELD_OF_PATH for item in found):
        return None
    return {item.path: item.values[0] for item in found}


def take_over(draft: Draft, changes: Mapping[str, Any]) -> None:
    """Let a draft have these changes and no others; one undo takes it all back."""
    preset = draft.preset.tables
    restored = {path: value_in(preset, path) for path in draft.changes()}
    draft.set({**restored, **changes})
