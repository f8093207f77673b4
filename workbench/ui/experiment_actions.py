"""What the app does with the experiment: undo, save, copy its command, sweep."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import work
from textual.app import App

from workbench.core.draft import Draft
from workbench.core.preset_store import (
    DEFAULT_PRESET,
    Preset,
    PresetError,
    list_presets,
    load_preset,
    save_preset,
)
from workbench.core.tables import spec_to_tables

if TYPE_CHECKING:
    from ipu_runtime.plan.plan import Plan


class ExperimentActions(App[None]):
    """The half of the app that deals with the experiment."""

    say: Callable[..., None]
    experiment_shown: Callable[[], None]

    def __init__(self, preset: str = "") -> None:
        super().__init__()
        self.presets: list[Preset] = list_presets()
        self._drafts: dict[str, Draft] = {}
        names = [item.name for item in self.presets]
        wanted = [name for name in (preset, DEFAULT_PRESET, *names) if name in names]
        self.current_preset = wanted[0] if wanted else ""
        self.plans_ready = False
        """Whether plans may be made: the first frame does without."""

    @property
    def draft(self) -> Draft:
        """The experiment that is on the screen, changes of each preset kept apart."""
        name = self.current_preset
        if name not in self._drafts:
            preset = next(item for item in self.presets if item.name == name)
            self._drafts[name] = Draft(preset)
        return self._drafts[name]

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
        return self.draft.why_not_run if self.plans_ready else ""

    def action_edit_undo(self) -> None:
        """Take back the last change."""
        self._after(self.draft.undo(), "undone", "nothing to undo")

    def action_edit_redo(self) -> None:
        """Bring back what was undone."""
        self._after(self.draft.redo(), "done again", "nothing to redo")

    def _after(self, done: bool, yes: str, no: str) -> None:
        self.say(yes if done else no)
        if done:
            self.experiment_shown()

    @property
    def command(self) -> str:
        """The command line that runs what is on the screen."""
        words = ["ipu-workbench", "run", self.current_preset]
        for change in self.draft.overrides():
            words += ["--set", change]
        return shlex.join(words)

    def action_command_copy(self) -> None:
        """Copy the command line of what is on the screen."""
        self.copy_to_clipboard(self.command)
        self.say(f"copied: {self.command}")

    @work
    async def action_preset_save(self) -> None:
        """Write the experiment to a preset of the user's own."""
        # Built only when asked for.
        from workbench.ui.screens.question import AskText, Confirm

        spec = self.draft.spec
        if spec is None:
            self.say(f"cannot save: {self.draft.why_not_run}", bad=True)
            return
        tables = spec_to_tables(spec)
        tables["experiment"]["group"] = "Own presets"
        proposal = f"{self.current_preset}-mine"
        name = await self.push_screen_wait(AskText("Save as preset", proposal))
        if not name:
            return
        try:
            own = {preset.name for preset in self.presets if not preset.packaged}
            overwrite = name in own and await self.push_screen_wait(
                Confirm(f"Replace your preset {name}?", "replace it", "keep it")
            )
            if name in own and not overwrite:
                return
            save_preset(name, tables, overwrite=overwrite)
            load_preset(name)
        except PresetError as error:
            self.say(f"cannot save: {error}", bad=True)
            return
        self.presets = list_presets()
        self.experiment_shown()
        self.say(f"saved as {name}, at the end of the list")

    @work
    async def action_sweep_start(self) -> None:
        """Run or plan the experiment for several values of fields."""
        # Built only when asked for.
        from workbench.ui.screens.sweep import AskGrid, SweepScreen

        if self.draft.spec is None:
            self.say(f"cannot sweep: {self.draft.why_not_run}", bad=True)
            return
        grid = await self.push_screen_wait(AskGrid(self.draft))
        if grid is not None:
            await self.push_screen(SweepScreen(self.draft, grid))
