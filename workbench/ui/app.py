"""The terminal app: the frame around the areas."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.filter import LineFilter
from textual.widgets import Static

from workbench.core.locations import NoHomeError
from workbench.core.record_files import RecordError
from workbench.core.settings import remember
from workbench.ui.actions import Scope, action_of, bindings_for, footer_actions
from workbench.ui.app_options import AppOptions
from workbench.ui.areas.area import Area
from workbench.ui.areas.catalogue import AREAS, build_area
from workbench.ui.content.frame import header_left, header_right, status_line
from workbench.ui.harmless_filter import HarmlessFilter
from workbench.ui.messages import ExperimentChanged, Said
from workbench.ui.run_actions import RunActions
from workbench.ui.run_board import RunBoard
from workbench.ui.themes import DARK, LIGHT, VARIABLES, next_theme
from workbench.ui.widgets.bars import EdgedBar, FooterBar, TabBar
from workbench.ui.widgets.row_list import RowList
from workbench.ui.widgets.sidebar import Sidebar

if TYPE_CHECKING:
    from textual.command import Provider

__all__ = ["AppOptions", "WorkbenchApp", "run_app"]

_REDRAWS_PER_SECOND = 10


def _palette() -> type[Provider]:
    """Load what the palette finds when it is first opened."""
    from workbench.ui.providers.actions import WorkbenchCommands

    return WorkbenchCommands


class WorkbenchApp(RunActions):
    """Presets and runs on the left, one of the areas on the right."""

    TITLE = "ipu-workbench"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_palette}
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-tiny"),
        (80, "-narrow"),
        (110, "-normal"),
        (150, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-flat"),
        (24, "-low"),
        (34, "-tall"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for(Scope.APP)]

    def __init__(self, options: AppOptions | None = None) -> None:
        self.options = options or AppOptions()
        self.ascii_only = self.options.ascii_only or bool(
            self.options.settings["ascii"]
        )
        super().__init__(self.options.preset or self.options.settings["preset"])
        self.board = RunBoard(self.options.clock)
        self.area_name = "start"
        self.frozen = False
        self._said: Said | None = None
        self._header = EdgedBar(id="header")
        self._tabs = TabBar(id="tabs")
        self.sidebar = Sidebar(id="sidebar")
        self._status = EdgedBar(id="status")
        self._footer = FooterBar(id="footer")
        self.area = build_area("start")
        self._areas: dict[str, Area] = {"start": self.area}

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Give every theme the colours of the phases."""
        return VARIABLES

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Keep the terminal safe, and use plain characters when asked to."""
        filters = [*super().get_line_filters(), HarmlessFilter()]
        if not self.ascii_only:
            return filters
        # Only plain terminals need it.
        from workbench.ui.ascii_filter import AsciiFilter

        return [*filters, AsciiFilter()]

    def compose(self) -> ComposeResult:
        """Build the frame; an area is built when it is first shown."""
        yield self._header
        yield self._tabs
        with Horizontal(id="body"):
            yield self.sidebar
            with Vertical(id="main"):
                yield self.area
        yield self._status
        yield self._footer
        yield Static("ipu-workbench needs a window of at least 80x24", id="too-small")

    def on_mount(self) -> None:
        """Choose colours and keys, then fill in what can wait for the first frame."""
        if self.options.obeys_signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, self.leave)
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = self._chosen_theme()
        self.set_keymap(self.options.settings.keys)
        if not self.options.settings["animations"]:
            self.animation_level = "none"
        self.sidebar.show_presets(self.presets, ())
        self.sidebar.presets.cursor_key = self.current_preset
        self.sidebar.presets.focus()
        self._show_frame()
        self.call_after_refresh(self._after_first_frame)

    def on_unmount(self) -> None:
        """Open with the same preset next time."""
        if self.current_preset != self.options.settings["preset"]:
            # Nobody could read a complaint any more, and nothing is lost.
            with suppress(OSError, RecordError, NoHomeError):
                remember("preset", self.current_preset)

    def _chosen_theme(self) -> str:
        for wanted in (self.options.theme, self.options.settings["theme"]):
            if wanted and wanted in self.available_themes:
                return str(wanted)
        return self.theme if self.theme != "textual-dark" else DARK.name

    def _after_first_frame(self) -> None:
        self.plans_ready = True
        self.show_header()
        self.set_interval(1 / _REDRAWS_PER_SECOND, self.refresh_runs)
        self.set_interval(2.0, self.look_for_records)
        self.look_for_records()
        self.area.refresh_area()
        for problem in self.options.settings.problems:
            self.post_message(Said(str(problem), bad=True))

    async def show_area(self, name: str) -> None:
        """Show an area, built now if it was never shown."""
        if name not in self._areas:
            area = build_area(name)
            area.display = False
            self._areas[name] = area
            await self.query_one("#main").mount(area)
        self.area.display = False
        self.area_name, self.area = name, self._areas[name]
        self.area.display = True
        self.sidebar.set_class(name != "start", "-aside")
        target = self.area.focus_target() or self.sidebar.presets
        self.screen.set_focus(target)
        self._show_frame()
        self.area.refresh_area()

    def _show_frame(self) -> None:
        self._tabs.show_areas(AREAS, self.area_name)
        self.show_header()
        self.show_footer()
        self.show_status()

    def show_header(self) -> None:
        """Show which experiment this is and how runs stand."""
        self._header.show(header_left(self), header_right(self))

    def show_status(self) -> None:
        """Show the last message, or what the live run does."""
        self._status.show(*status_line(self, self._said))

    def show_footer(self) -> None:
        """Show the keys that do something here and now."""
        actions = footer_actions(*self.area.footer_scopes)
        self._footer.show_actions(actions, self.options.settings.keys)

    def on_descendant_focus(self) -> None:
        """Keys depend on what has the focus."""
        if self.area.is_mounted:
            self.show_footer()

    @on(RowList.Highlighted, "#presets")
    def _preset_chosen(self, event: RowList.Highlighted) -> None:
        event.stop()
        if event.key and event.key != self.current_preset:
            self.current_preset = event.key
            self._said = None
            self.experiment_shown()

    @on(ExperimentChanged)
    def experiment_shown(self) -> None:
        """Show the experiment wherever it is seen."""
        self.sidebar.show_presets(self.presets, self.changed_presets())
        self.show_header()
        self.show_status()
        self.area.refresh_area()

    @on(Said)
    def _say(self, event: Said) -> None:
        self._said = event
        self.show_status()

    def say(self, text: str, bad: bool = False) -> None:
        """Confirm something in the status bar."""
        self.post_message(Said(text, bad))

    @on(Sidebar.PresetOpened)
    async def _open_preset(self) -> None:
        await self.show_area("configure")

    async def action_area_start(self) -> None:
        """Show presets and runs."""
        await self.show_area("start")

    async def action_area_configure(self) -> None:
        """Show the form."""
        await self.show_area("configure")

    async def action_area_stages(self) -> None:
        """Show the stages."""
        await self.show_area("stages")

    async def action_area_run(self) -> None:
        """Show the run."""
        await self.show_area("run")

    async def action_area_compare(self) -> None:
        """Show the comparison."""
        await self.show_area("compare")

    async def action_area_report(self) -> None:
        """Show the report."""
        await self.show_area("report")

    async def action_area_script(self) -> None:
        """Show the script."""
        await self.show_area("script")

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

    def choose_preset(self, name: str) -> None:
        """Put the cursor of the list on a preset."""
        self.sidebar.presets.cursor_key = name

    def action_view_freeze(self) -> None:
        """Keep the plots still, or let them move again."""
        self.frozen = not self.frozen
        self.say(
            "view frozen, the run goes on" if self.frozen else "view follows the run"
        )

    async def action_press_action(self, action_id: str) -> None:
        """Do what a key of the footer, the palette or the help stands for."""
        spec = action_of(action_id)
        nodes: list[Any] = (
            list(self.focused.ancestors_with_self) if self.focused else []
        )
        for node in [*nodes, self.area, self.sidebar, self]:
            if hasattr(node, f"action_{spec.method}"):
                await self.run_action(spec.method, default_namespace=node)
                return

    def action_app_help_here(self) -> None:
        """Say what this area shows and which keys it has."""
        # Built only when asked for.
        from workbench.ui.screens.help import HelpScreen

        sentence = getattr(self.focused, "sentence", "")
        keys = self.options.settings.keys
        self.push_screen(HelpScreen(self.area.footer_scopes, keys, sentence))


def run_app(theme: str | None = None, ascii_only: bool = False) -> int:
    """Open the app in this terminal; what native libraries print goes to a file."""
    from workbench.core.locations import data_directory
    from workbench.ui.native_log import native_output_to
    from workbench.ui.signals import survives_lost_terminal

    options = AppOptions(theme=theme or "", ascii_only=ascii_only, obeys_signals=True)
    with native_output_to(data_directory() / "app.log"):
        app = WorkbenchApp(options)
        with survives_lost_terminal(app.board):
            app.run()
    return app.return_code or 0
