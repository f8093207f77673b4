"""The terminal app: what keys do, with the experiment and with runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, work
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.filter import LineFilter, Monochrome
from textual.screen import ModalScreen, Screen
from textual.theme import BUILTIN_THEMES

from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.locations import NoHomeError
from workbench.services.runs import Runs
from workbench.services.session import Session
from workbench.settings import remember
from workbench.store_json import RecordError
from workbench.ui.actions import (
    ACTIONS,
    FIXES,
    LIVE,
    ActionSpec,
    Scope,
    action_of,
    all_keys,
    bindings_for,
)
from workbench.ui.app_options import AppOptions
from workbench.ui.areas.catalogue import area_of
from workbench.ui.handlers import Handlers
from workbench.ui.key_order import KeyOrder
from workbench.ui.line_filters import ASCII, HARMLESS, NO_COLOR
from workbench.ui.main_screen import MainScreen
from workbench.ui.screens.palette import WorkbenchCommands
from workbench.ui.themes import (
    DARK,
    LIGHT,
    VARIABLES,
    next_theme,
    theme_problem,
    with_visible_borders,
)
from workbench.ui.widgets.run_messages import ForkWanted

if TYPE_CHECKING:
    from workbench.ui.screens.sweep import SweepScreen

_LOOKS_PER_SECOND = 10
"""At the records of runs that are shown."""


class WorkbenchApp(App[None]):
    """Services, the handlers that call them, and the screen that shows them."""

    TITLE = "ipu-workbench"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    COMMANDS = {WorkbenchCommands}  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for(Scope.APP)]

    def __init__(self, options: AppOptions | None = None) -> None:
        self.options = options or AppOptions()
        settings = self.options.settings
        self.ascii_only = self.options.ascii_only or bool(settings["ascii"])
        super().__init__()
        self._key_order = KeyOrder(self, super().on_event)
        preset = self.options.preset or settings["preset"]
        self.session = Session(preset, settings.changes)
        self.runs = Runs(self.options.runner, self._in_thread)
        self.handlers = Handlers(self, self, self.session, self.runs)
        self.main = MainScreen(self.handlers, settings.keys)

    def _in_thread(self, work: Callable[[], None], group: str) -> None:
        """Let a thread of this app work for a service."""
        self.run_worker(work, group=group, exit_on_error=False, thread=True)

    def get_default_screen(self) -> MainScreen:
        """Begin with the screen that shows the experiment and runs."""
        return self.main

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Give every theme the colours of the phases."""
        return VARIABLES

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Keep the terminal safe, and use plain characters when asked to."""
        filters = [
            # Greys of the terminal's own colours would be black on black.
            NO_COLOR if self.native_ansi_color and type(item) is Monochrome else item
            for item in super().get_line_filters()
        ]
        return [*filters, HARMLESS, *([ASCII] if self.ascii_only else [])]

    async def on_event(self, event: events.Event) -> None:
        """Let keys act in the order in which they were typed."""
        if isinstance(event, events.Key) and not event.is_forwarded:
            self._key_order.take(event)
        else:
            await super().on_event(event)

    def on_mount(self) -> None:
        """Choose colours and keys; what can wait comes after the first frame."""
        if self.options.obeys_signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(
                    number, self.handlers.leave
                )
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        for theme in BUILTIN_THEMES.values():
            if theme.ansi:
                self.register_theme(with_visible_borders(theme))
        self.theme = self._chosen_theme()
        self.set_keymap(self.options.settings.keys)
        if not self.options.settings["animations"]:
            self.animation_level = "none"

    def _chosen_theme(self) -> str:
        for wanted in (self.options.theme, self.options.settings["theme"]):
            if wanted and wanted in self.available_themes:
                return str(wanted)
        return self.theme if self.theme != "textual-dark" else DARK.name

    def on_ready(self) -> None:
        """Let plans and runs be shown, now that the first frame is out."""
        self.call_after_refresh(self._after_first_frame)

    def _after_first_frame(self) -> None:
        if self.return_code is not None:
            return  # It leaves already: nobody waits for a plan.
        self.session.plans_ready = True
        self.main.show_experiment()
        self.set_interval(1 / _LOOKS_PER_SECOND, self.runs.follow)
        self.set_interval(2.0, self.runs.look)
        self.runs.look()
        self.handlers.take_over_queue()
        if self.options.script is not None:
            self.run_worker(self.handlers.start_script(self.options.script))
        for problem in self.options.settings.problems:
            self.say(str(problem), bad=True)
        if unknown := theme_problem(self.options.settings["theme"]):
            self.say(f"settings: theme: {unknown}", bad=True)
        for file in self.session.damaged_drafts:
            self.say(f"{file} is damaged: its changes are not shown", bad=True)

    def on_unmount(self) -> None:
        """Open with the same preset next time, and leave the queue to that."""
        self.runs.release_queue()
        preset = self.session.current_preset
        if preset != self.options.settings["preset"]:
            # Nobody could read a complaint any more, and nothing is lost.
            with suppress(OSError, RecordError, NoHomeError):
                remember("preset", preset)

    def say(self, text: str, bad: bool = False) -> None:
        """Confirm something in the status bar, and on a screen that covers it."""
        self.main.say(text, bad)
        told = getattr(self.screen, "say", None)
        if told is not None and self.screen is not self.main:
            told(text, bad)

    async def show_area(self, name: str) -> None:
        """Show an area; also what its key does."""
        self.main.leave_script(name)
        await self.main.show_area(name)

    action_area = show_area

    async def action_run_start(self) -> None:
        """Start the current script or experiment, or put it into the queue."""
        if isinstance(self.screen, ModalScreen):
            return  # The key comes through; a question is answered first.
        await self.handlers.start()

    def action_run_pause(self) -> None:
        """Let the live run wait, or go on."""
        self.handlers.pause()

    @work
    async def action_run_stop(self) -> None:
        """Ask, then stop the live run."""
        await self.handlers.stop()

    @work
    async def action_app_leave(self) -> None:
        """Leave; with a live run ask first."""
        await self.handlers.ask_to_leave()

    @work
    async def action_runs_list(self) -> None:
        """Show all runs in a table."""
        # Built only when asked for.
        from workbench.ui.screens.runs import RunsScreen

        key = await self.push_screen_wait(RunsScreen(self.handlers))
        if key:
            self.main.post_message(ForkWanted(key))

    def action_edit_undo(self) -> None:
        """Take back the last change."""
        self.handlers.undo()

    def action_edit_redo(self) -> None:
        """Bring back what was undone."""
        self.handlers.redo()

    def action_command_copy(self) -> None:
        """Copy the command line of what is on the screen."""
        self.handlers.copy_command()

    @work
    async def action_script_open(self) -> None:
        """Put a script of the user's own on the screen."""
        await self.handlers.ask_script()

    @work
    async def action_script_capture(self) -> None:
        """Make an experiment of the script that is looked at."""
        await self.handlers.capture()

    @work
    async def action_model_open(self) -> None:
        """Make an experiment of a Keras model of the user's own."""
        await self.handlers.open_model()

    @work
    async def action_preset_read(self) -> None:
        """Read the model and the data that the preset names, if that is not done."""
        await self.handlers.read_sources()

    @work
    async def action_preset_save(self) -> None:
        """Write the experiment to a preset of the user's own."""
        await self.handlers.save()

    @work
    async def action_sweep_start(self) -> None:
        """Run or plan the experiment for several values of fields."""
        # It loads what most visits do without.
        from workbench.services.sweeps import Sweep, read_grid
        from workbench.ui.screens.sweep import AskGrid, SweepScreen

        with self.handlers.refusals("sweep"):
            self.session.valid()
            draft = self.session.draft
            grid = await self.push_screen_wait(AskGrid(draft))
            if grid is not None:
                sweep = Sweep.of_grid(draft, read_grid(grid))
                await self._show_sweep(SweepScreen(self.handlers, sweep))

    @work
    async def action_sweep_former(self) -> None:
        """Look at the points of a sweep that was made before."""
        # It loads what most visits do without.
        from workbench.services.sweeps import Sweep
        from workbench.sweeps.sweep_record import list_sweeps
        from workbench.ui.dialogs.question import Choose
        from workbench.ui.screens.sweep import SweepScreen, sweep_words

        groups = list_sweeps()
        if not groups:
            self.say("there are no sweeps yet: w begins one")
            return
        question = Choose("Former sweeps", groups, "", sweep_words)
        group = await self.push_screen_wait(question)
        if group is None:
            return
        try:
            screen = SweepScreen(self.handlers, Sweep.of_group(group))
        except RecordError as error:
            self.say(str(error), bad=True)
            return
        await self._show_sweep(screen)

    async def _show_sweep(self, screen: SweepScreen) -> None:
        point = await self.push_screen_wait(screen)
        if point is None:
            return
        with self.handlers.refusals():
            self.session.load_point(point.preset, point.tables)
            self.say(f"{point.words} is set, u undoes it")
            await self.show_area("configure")

    @work
    async def action_best_plan(self) -> None:
        """Search all settings for a goal, and use what is found."""
        # It loads the search, which most visits do without.
        from workbench.ui.screens.best_plan import BestPlanScreen

        with self.handlers.refusals("search"):
            spec, plan = self.session.valid(), self.session.draft.plan
            now = plan.samples_per_second if plan else 0.0
            values = await self.push_screen_wait(BestPlanScreen(spec, now))
            if values is not None:
                self.handlers.set_values(values, "the best settings")

    def action_view_freeze(self) -> None:
        """Keep the plots still, or let them move again."""
        self.main.freeze()

    def action_view_theme(self) -> None:
        """Change the colours."""
        self.use_theme(next_theme(self.theme))

    def use_theme(self, name: str) -> None:
        """Change the colours, and remember them."""
        self.theme = name
        self.say(f"theme {name}")
        try:
            remember("theme", name)
        except (OSError, RecordError, NoHomeError) as error:
            self.say(f"theme {name}, but it cannot be remembered: {error}")

    def action_app_help_here(self) -> None:
        """Say what this area shows and which keys it has."""
        # Built only when asked for.
        from workbench.ui.screens.help import HelpScreen

        sentence = getattr(self.focused, "sentence", "")
        keys = self.options.settings.keys
        self.push_screen(HelpScreen(self.main.area.footer_scopes, keys, sentence))

    async def action_press_action(self, action_id: str) -> None:
        """Do what a key of the footer, the palette or the help stands for."""
        spec = action_of(action_id)
        nodes: list[Any] = (
            list(self.focused.ancestors_with_self) if self.focused else []
        )
        for node in [*nodes, self.main.area, self.main.sidebar, self]:
            if await self.run_action(spec.action, default_namespace=node):
                return

    def get_system_commands(self, screen: Screen[Any]) -> Iterator[SystemCommand]:
        """Offer what can be done now, the area's own first; presets and fields."""
        here = (*self.main.area.footer_scopes, Scope.APP)
        possible = [spec for spec in ACTIONS if self._possible(spec)]
        for spec in sorted(possible, key=lambda spec: spec.scope not in here):
            place = "" if spec.scope is Scope.APP else f"{spec.scope.value}: "
            keys = all_keys(spec, self.options.settings.keys)
            act = partial(self._act, spec)
            yield SystemCommand(place + spec.title, f"{spec.tooltip} ({keys})", act)
        for preset in self.session.presets:
            choose = partial(self.main.choose_preset, preset.name)
            yield SystemCommand(f"Preset {preset.name}", preset.title, choose)
        for path, field in FIELD_OF_PATH.items():
            go = partial(self._show_field, path)
            yield SystemCommand(f"Field {path}", field.help, go)
        for theme in sorted(self.available_themes):
            use = partial(self.use_theme, theme)
            yield SystemCommand(f"Theme {theme}", "Colours", use)

    def _possible(self, spec: ActionSpec) -> bool:
        """Tell whether an action can be done now, if need be in its own area."""
        draft = self.session.draft
        changes = {"edit.undo": draft.can_undo, "edit.redo": draft.can_redo}
        if spec.id in changes:
            return changes[spec.id]
        if spec.id in self.main.area.useless:
            return False
        if spec.id == "run.pause":
            return self.runs.pausable
        if spec.id in LIVE:
            return self.runs.active is not None
        if spec.scope is Scope.RUN:
            return self.runs.viewed_view is not None
        if spec.id in FIXES:
            return self.main.area.has_fix and area_of(spec.scope) == self.main.area.name
        if spec.scope in (Scope.TIMELINE, Scope.CHART):
            return spec.scope in self.main.area.footer_scopes
        return spec.scope is Scope.APP or bool(area_of(spec.scope))

    async def _show_field(self, path: str) -> None:
        await self.show_area("configure")
        self.main.area.show_field(path)

    async def _act(self, spec: ActionSpec) -> None:
        area = area_of(spec.scope)
        if area and area != self.main.area.name:
            await self.show_area(area)
        await self.action_press_action(spec.id)
