"""The screen below all others: header, lists, one area, status and footer."""

from __future__ import annotations

from collections.abc import Mapping

from textual import on
from textual.app import ComposeResult
from textual.events import Resize
from textual.screen import Screen

from ipu_runtime.reports.document import BAD, MARK, MUTED
from workbench.runs.verdict import remedy
from workbench.ui.actions import FIXES, LIVE, footer_actions
from workbench.ui.areas.area import Area
from workbench.ui.areas.catalogue import AREAS, EXPERIMENT_AREAS, AreaStack
from workbench.ui.content.frame import header_left, header_right, next_hint, run_state
from workbench.ui.handlers import Handlers
from workbench.ui.sidebar import Sidebar
from workbench.ui.steady_size import SteadySize
from workbench.ui.widgets.bars import EdgedBar, FooterBar, TabBar
from workbench.ui.widgets.plain import Horizontal, Static
from workbench.ui.widgets.row_list import RowList
from workbench.ui.widgets.run_messages import ForkWanted, Newest
from workbench.views.content import line


class MainScreen(SteadySize, Screen[None]):
    """Presets and runs on the left, one of the areas on the right."""

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

    class ExperimentChanged(Newest):
        """A value of the experiment is another one now, or the experiment."""

    class RunsChanged(Newest):
        """Lists of runs, or what is said of the live one, are to be shown anew."""

    class ViewedGrew(Newest):
        """There is more to show of the run that is looked at."""

    def __init__(self, handlers: Handlers, keymap: Mapping[str, str]) -> None:
        super().__init__()
        self._handlers, self._keymap = handlers, keymap
        self._session, self._runs = handlers.session, handlers.runs
        self._scripts = handlers.scripts
        self._frozen = False
        self._said = ("", False)
        self._header = EdgedBar(id="header")
        self._tabs = TabBar(id="tabs")
        self.sidebar = Sidebar(handlers)
        self._areas = AreaStack(handlers)
        self._status = EdgedBar(id="status")
        self._footer = FooterBar(id="footer")

    @property
    def area(self) -> Area:
        """The area that is seen."""
        return self._areas.current

    def compose(self) -> ComposeResult:
        """Build the frame; an area is built when it is first shown."""
        yield self._header
        yield self._tabs
        yield Horizontal(self.sidebar, self._areas, id="body")
        yield self._status
        yield self._footer
        yield Static("ipu-workbench needs a window of at least 80x24", id="too-small")

    def on_mount(self) -> None:
        """Put the cursor on the preset, and listen to the services."""
        self.sidebar.show_presets()
        self._shown_preset = ""
        self._follow_preset()
        session, runs = self._session, self._runs
        session.experiment_changed.connect(lambda _: self._post(self.ExperimentChanged))
        self._scripts.opened_changed.connect(lambda _: self._post(self.RunsChanged))
        runs.queue_changed.connect(lambda _: self._post(self.RunsChanged))
        runs.run_grew.connect(self._run_grew)
        self.sidebar.presets.focus()
        self._show_frame()

    async def show_area(self, name: str) -> None:
        """Show an area, built now if it was never shown."""
        await self._areas.show(name)
        self.sidebar.set_class(name != "start", "-aside")
        # Runs are columns there, and the list that marks them is one key away.
        self.sidebar.set_class(name == "compare", "-away")
        self._focus_area()
        self._show_frame()
        self.area.refresh_area()

    def on_resize(self, event: Resize) -> None:
        """Texts were cut for the width before."""
        if self.area.is_mounted:
            self.call_after_refresh(self._show_resized)

    def _show_resized(self) -> None:
        if self.focused is None:
            # What had it was hidden, and keys would reach nothing.
            self._focus_area()
        self.show_experiment()

    def _focus_area(self) -> None:
        self.set_focus(self.area.focus_target() or self.sidebar.presets)

    def _post(self, message: type[Newest]) -> None:
        """Show something once for many changes, unless the app closes already."""
        if self.is_running and self.app.is_running:
            self.post_message(message())

    def _run_grew(self, key: str) -> None:
        self._post(self.RunsChanged)
        if key == self._runs.viewed:
            self._post(self.ViewedGrew)

    def _follow_preset(self) -> None:
        """Put the cursor of the list on the preset that is worked on."""
        if self._session.current_preset != self._shown_preset:
            self._shown_preset = self._session.current_preset
            self.choose_preset(self._shown_preset)

    def _show_frame(self) -> None:
        self._tabs.show_areas(AREAS, self.area.name)
        self._show_header()
        self._show_footer()
        self._show_status()

    def _show_header(self) -> None:
        script = self._scripts.opened
        width = 0 if script else self.size.width
        right = header_right(self._session, self._runs, width)
        self._header.show(header_left(self._session, script), right)

    def _show_status(self) -> None:
        text, bad = self._said
        active = self._runs.active
        goes_on = (
            run_state(active.view)
            if active
            else f"F5 runs {self._scripts.opened.name}"
            if self._scripts.opened
            else next_hint(self._session, self.area.name, self.area.has_fix)
        )
        frozen = ("frozen  ", MARK) if self._frozen else ""
        left = line((f" {text}", BAD if bad else ""))
        self._status.show(left, line(frozen, (f"{goes_on} ", MUTED)))

    def _show_footer(self) -> None:
        useless = (
            *self.area.useless,
            *(() if self.area.has_fix else FIXES),
            *(() if self._runs.active else LIVE),
            *(() if self._runs.pausable else ("run.pause",)),
        )
        actions = footer_actions(*self.area.footer_scopes, without=useless)
        self._footer.show_actions(actions, self._keymap)

    def on_descendant_focus(self) -> None:
        """Keys depend on what has the focus."""
        if self.area.is_mounted:
            self._show_footer()

    @on(RowList.Highlighted, "#presets")
    def _preset_chosen(self, event: RowList.Highlighted) -> None:
        event.stop()
        if event.key and event.key != self._session.current_preset:
            self._scripts.opened = None
            self._said = ("", False)
            self._shown_preset = event.key
            self._session.choose(event.key)

    @on(ForkWanted)
    async def _fork(self, event: ForkWanted) -> None:
        event.stop()
        view, tables = self._runs.view(event.key), self._runs.tables(event.key)
        if view is None or not tables or "script" in tables:
            self.say("there is no experiment to open in the form", bad=True)
            return
        values = remedy(view, tables)
        self._session.fork(view.preset, tables, values)
        draft = self._session.draft
        repaired = ", ".join(f"{path} is {draft.text(path)}" for path in values)
        self.say(f"the run's experiment; {repaired or 'u brings yours back'}")
        await self.show_area("configure")

    def leave_script(self, area: str) -> None:
        """Let F5 run the experiment again where one is looked at."""
        script = self._scripts.opened
        if script is not None and area in EXPERIMENT_AREAS:
            self._scripts.opened = None
            preset = self._session.current_preset
            self.say(f"F5 runs {preset} again; o opens {script.name}")

    def choose_preset(self, name: str) -> None:
        """Put the cursor of the list on a preset."""
        self.sidebar.presets.cursor_key = name

    @on(ExperimentChanged)
    def show_experiment(self) -> None:
        """Show the experiment wherever it is seen, and keep its changes."""
        self._handlers.store_draft()
        self.sidebar.show_presets()
        self._follow_preset()
        self._show_header()
        self._show_footer()
        self._show_status()
        self.area.refresh_area()

    @on(RunsChanged)
    def show_runs(self) -> None:
        """Show how runs stand wherever that is seen."""
        self._show_header()
        self._show_footer()
        self._show_status()
        self.sidebar.show_runs()

    @on(ViewedGrew)
    def show_viewed(self) -> None:
        """Show what has come of the run that is looked at, unless it is frozen."""
        if not self._frozen:
            self.area.refresh_run()

    def freeze(self) -> None:
        """Keep the plots still, or let them move again."""
        self._frozen = not self._frozen
        self.show_viewed()
        self.say(
            "view frozen, the run goes on" if self._frozen else "view follows the run"
        )

    @on(Area.Said)
    def _area_said(self, event: Area.Said) -> None:
        self.say(event.text, event.bad)

    def say(self, text: str, bad: bool = False) -> None:
        """Confirm something in the status bar."""
        self._said = (text, bad)
        self._show_status()
