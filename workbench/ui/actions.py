"""Every action, declared once: bindings, footer, palette and help are made from it."""
# A table reads best with one action per line.
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.binding import Binding


class Scope(Enum):
    """Where an action applies; the value is its heading in the help."""

    APP = "Everywhere"
    START = "Presets and runs"
    CONFIGURE = "Configure"
    STAGES = "Stages"
    TIMELINE = "Timeline"
    RUN = "Run"
    CHART = "Chart"
    COMPARE = "Compare"
    REPORT = "Report"
    SCRIPT = "Script"
    SCHEDULES = "Schedules"
    RUNS = "All runs"
    SWEEP = "Sweep"
    BEST = "Best plan"


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """One thing that a key, the palette or a click can do."""

    id: str
    """Name under which `[keys]` of the settings maps it to other keys."""
    keys: str
    """Default keys, separated by commas."""
    title: str
    tooltip: str
    scope: Scope
    footer: str = ""
    """Short word in the footer; empty keeps it out."""
    key_display: str = ""
    priority: bool = False

    @property
    def action(self) -> str:
        """How Textual calls it: `run.start` is `run_start`, an area is `area('run')`."""
        group, _, name = self.id.partition(".")
        return f"area('{name}')" if group == "area" else f"{group}_{name}"


def _a(
    scope: Scope,
    action_id: str,
    keys: str,
    title: str,
    tooltip: str,
    footer: str = "",
    key_display: str = "",
    priority: bool = False,
) -> ActionSpec:
    return ActionSpec(
        action_id, keys, title, tooltip, scope, footer, key_display, priority
    )


_APP, _START, _CONF = Scope.APP, Scope.START, Scope.CONFIGURE
_STAGES, _LINE, _RUN = Scope.STAGES, Scope.TIMELINE, Scope.RUN
_CHART, _COMP, _REPORT = Scope.CHART, Scope.COMPARE, Scope.REPORT
_SCRIPT, _SCHED, _BEST = Scope.SCRIPT, Scope.SCHEDULES, Scope.BEST
_RUNS = Scope.RUNS
_SWEEP = Scope.SWEEP

ACTIONS: tuple[ActionSpec, ...] = (
    _a(_APP, "run.start", "f5,ctrl+r", "Start the run", "Start this experiment, or queue it behind the run that is live", "run", "F5", True),
    _a(_APP, "app.help_here", "f1,question_mark", "Help", "What this area shows and which keys it has", "help", "?"),
    _a(_APP, "area.start", "f2,1", "Show presets and runs", "Pick a preset or a run", "", "1"),
    _a(_APP, "area.configure", "f3,2", "Show Configure", "Change the fields of the experiment", "", "2"),
    _a(_APP, "area.stages", "f4,3", "Show Stages", "Cut the model into pipeline stages", "", "3"),
    _a(_APP, "area.run", "f6,4", "Show Run", "Watch a run", "", "4"),
    _a(_APP, "area.compare", "f7,5", "Show Compare", "Compare the marked runs", "", "5"),
    _a(_APP, "area.report", "f8,6", "Show Report", "Where the modelled time and memory go", "", "6"),
    _a(_APP, "area.script", "f9,7", "Show Script", "The experiment as Python for the real API", "", "7"),
    _a(_APP, "runs.list", "L", "All runs", "Every run in a table: sort, filter, note, tag, pin, rename, delete"),
    _a(_APP, "run.stop", "s", "Stop the run", "Stop at the next piece of work and keep what is done; asks first", "stop", "s"),
    _a(_APP, "run.pause", "p", "Pause or go on", "Let the live run wait, or go on", "pause", "p"),
    _a(_APP, "edit.undo", "u", "Undo", "Take back the last change of the experiment"),
    _a(_APP, "edit.redo", "U", "Redo", "Bring back the change that was undone"),
    _a(_APP, "model.open", "ctrl+o", "Open a model", "Make an experiment of a Keras model of your own"),
    _a(_APP, "script.open", "o", "Open a script", "Watch a script of your own, or change what was captured of one"),
    _a(_APP, "preset.save", "ctrl+s", "Save as preset", "Write the experiment to a preset of your own"),
    _a(_APP, "command.copy", "c", "Copy the command", "Copy the command line that does what is on the screen", "copy command"),
    _a(_APP, "sweep.start", "w", "Sweep", "Run the experiment for several values of fields"),
    _a(_APP, "sweep.former", "W", "Former sweeps", "Look at the points of a sweep that was made before"),
    _a(_APP, "best.plan", "B", "Best plan", "Let the workbench search all settings for a goal"),
    _a(_APP, "view.freeze", "z", "Freeze the view", "Keep the plots still while the run goes on"),
    _a(_APP, "view.theme", "ctrl+t", "Next theme", "Dark, light, or the terminal's own colours"),
    _a(_APP, "app.leave", "ctrl+q,q", "Quit", "Leave; asks when a run is live", "quit", "q"),
    _a(_START, "list.open", "enter", "Open", "Configure the preset, or look at the run", "open", "enter"),
    _a(_START, "list.mark", "space", "Mark for comparison", "Add the run to the comparison, or take it out", "mark", "space"),
    _a(_START, "list.filter", "slash", "Filter", "Show only what contains a word; esc clears it", "filter", "/"),
    _a(_START, "run.resume", "r", "Resume the run", "Go on with a run that was stopped or killed"),
    _a(_START, "list.other", "tab", "Presets or runs", "Change between the two lists", "lists", "tab"),
    _a(_CONF, "field.edit", "enter", "Edit the field", "Type a value, or pick one", "edit", "enter"),
    _a(_CONF, "field.next_choice", "space", "Next choice", "Flip a switch or take the next choice", "next", "space"),
    _a(_CONF, "field.suggestion", "f", "Take the suggestion", "Set the value that the message proposes", "fix", "f"),
    _a(_CONF, "field.restore", "backspace,delete", "Restore the field", "Back to the preset's value", "restore", "bksp"),
    _a(_CONF, "field.restore_all", "R", "Restore all fields", "Back to the preset; undo brings the changes back"),
    _a(_CONF, "field.only_changed", "o", "Only changed fields", "Hide fields that are as in the preset"),
    _a(_CONF, "field.filter", "slash", "Filter fields", "Show only fields that contain a word; esc clears it", "filter", "/"),
    _a(_CONF, "field.fold", "left", "Fold the group", "Hide the fields of the group"),
    _a(_CONF, "field.unfold", "right", "Unfold the group", "Show the fields of the group"),
    _a(_STAGES, "stage.mend", "f", "Mend", "Set what would let the experiment run", "fix", "f"),
    _a(_STAGES, "stage.layer_earlier", "left", "Layer to the stage before", "Move the layer or block one stage to the front"),
    _a(_STAGES, "stage.layer_later", "right", "Layer to the next stage", "Move the layer or block one stage to the back", "move", "←→"),
    _a(_STAGES, "stage.count", "S", "Number of stages", "Cut the model into as many stages as you say", "stages", "n N S"),
    _a(_STAGES, "stage.more", "n", "One stage more", "Cut the longest stage in two"),
    _a(_STAGES, "stage.fewer", "N", "One stage fewer", "Join the two with the least work"),
    _a(_STAGES, "stage.balance", "b", "Balance", "Let the workbench find the fastest cuts", "balance", "b"),
    _a(_STAGES, "stage.schedules", "k", "Compare schedules", "Every schedule with its time, bubble and memory", "schedules", "k"),
    _a(_STAGES, "stage.advice", "enter", "Take the advice", "Move the cut as the line below the stages says"),
    _a(_STAGES, "stage.cut_up", "left_square_bracket", "Cut up", "Move the nearest cut one line up"),
    _a(_STAGES, "stage.cut_down", "right_square_bracket", "Cut down", "Move the nearest cut one line down"),
    _a(_STAGES, "stage.fold", "space", "Fold the block", "Show a block of layers as one line, or its layers"),
    _a(_STAGES, "stage.lock", "l", "Lock the layer", "Balancing leaves a locked layer in its stage"),
    _a(_STAGES, "stage.recompute", "r", "Recomputation", "Next way to recompute activations"),
    _a(_LINE, "timeline.left", "left,h", "Task before", "Read the task before: its time, and what it waited for", "read a cell", "←→↑↓"),
    _a(_LINE, "timeline.right", "right", "Task after", "Read the task after"),
    _a(_LINE, "timeline.up", "up", "IPU above", "Read what the IPU above does then"),
    _a(_LINE, "timeline.down", "down", "IPU below", "Read what the IPU below does then"),
    _a(_LINE, "timeline.zoom_in", "plus,equals_sign", "Wider cells", "Show more of each task", "zoom", "+ -"),
    _a(_LINE, "timeline.zoom_out", "minus", "Narrower cells", "Show more slots"),
    _a(_LINE, "timeline.scale", "t", "Slots or time", "Cells of equal width, or as wide as the time they take"),
    _a(_SCHED, "schedule.choose", "enter", "Use the schedule", "Set it in the experiment; what-if schedules cannot be run", "use", "enter"),
    _a(_BEST, "best.use", "enter", "Use the settings", "Set them in the experiment; one undo takes them back", "use", "enter"),
    _a(_BEST, "best.goal", "o", "Next goal", "Throughput, latency, memory, or time to the samples", "goal", "o"),
    _a(_BEST, "best.batch", "g", "Any update", "Let weight updates have any number of samples, or keep what they have", "update", "g"),
    _a(_RUNS, "runs.open", "enter", "Look at the run", "Show it in the Run area"),
    _a(_RUNS, "runs.mark", "space", "Mark for comparison", "Add the run to the comparison, or take it out"),
    _a(_RUNS, "runs.order", "o", "Order", "Newest first, by name, by result or by state"),
    _a(_RUNS, "runs.filter", "slash", "Filter", "Words of the run, or field=value; esc clears it"),
    _a(_RUNS, "runs.note", "n", "Note", "Write a note to the run"),
    _a(_RUNS, "runs.tag", "t", "Tags", "Give the run tags, or take them away"),
    _a(_RUNS, "runs.pin", "P", "Pin", "Keep the run on top, or let it go"),
    _a(_RUNS, "runs.rename", "e", "Name", "Give the run a name of its own"),
    _a(_RUNS, "runs.fork", "f", "Fork into the form", "Open the experiment of the run in Configure"),
    _a(_RUNS, "runs.vary", "v", "Run with one change", "Start its experiment with another value of one field"),
    _a(_RUNS, "runs.resume", "r", "Resume", "Go on with a run that was stopped, killed or kept waiting"),
    _a(_RUNS, "runs.delete", "D,delete", "Delete", "Delete the run; asks first"),
    _a(_SWEEP, "sweep.load", "enter", "Load the point", "Set the fields of the point in the form", "load", "enter"),
    _a(_SWEEP, "sweep.sort_left", "left", "Sort by the column before", "Best first"),
    _a(_SWEEP, "sweep.sort_right", "right", "Sort by the next column", "Best first"),
    _a(_SWEEP, "sweep.reverse", "v", "Reverse", "Worst first, or best first again"),
    _a(_SWEEP, "sweep.go_on", "r", "Go on", "Do what is left of a former sweep"),
    _a(_RUN, "run.again", "a", "Run again", "Start the experiment of this run once more", "again", "a"),
    _a(_RUN, "run.fork", "f", "Fork into the form", "Open the experiment of this run in Configure, with what may mend it", "fork", "f"),
    _a(_RUN, "run.vary", "v", "Run with one change", "Start the experiment of this run with another value of one field"),
    _a(_RUN, "run.evaluate", "e", "Evaluate", "Measure the trained model on the test data", "evaluate", "e"),
    _a(_RUN, "run.resume_here", "r", "Resume", "Go on with a run that was stopped or killed"),
    _a(_RUN, "script.capture", "k", "Capture the script", "Make an experiment of the script: Configure and Stages then work on its model", "capture", "k"),
    _a(_RUN, "run.log", "l", "Whole log", "Read all messages of the run"),
    _a(_RUN, "call.before", "left_square_bracket", "Call before", "Curves of the call of the script before this one"),
    _a(_RUN, "call.after", "right_square_bracket", "Next call", "Curves of the next call of the script"),
    _a(_CHART, "chart.smoother", "m", "More smoothing", "Average over more steps", "smooth", "m M"),
    _a(_CHART, "chart.rougher", "M", "Less smoothing", "Average over fewer steps"),
    _a(_CHART, "chart.log_y", "y", "Log y", "Logarithmic height", "log", "y x"),
    _a(_CHART, "chart.log_x", "x", "Log x", "Logarithmic width"),
    _a(_CHART, "chart.cursor_left", "left,h", "Cursor left", "Read the value before", "cursor", "←→"),
    _a(_CHART, "chart.cursor_right", "right", "Cursor right", "Read the value after"),
    _a(_CHART, "chart.maximise", "enter", "One chart or all", "Give the chart the whole area", "whole", "enter"),
    _a(_CHART, "chart.zoom_in", "plus,equals_sign", "Zoom in", "Show a shorter piece of the run"),
    _a(_CHART, "chart.zoom_out", "minus", "Zoom out", "Show a longer piece of the run"),
    _a(_COMP, "compare.read", "enter", "Read in full", "Every cell of the row with nothing cut; the model opens and closes", "read", "enter"),
    _a(_COMP, "compare.explain", "x", "Explain", "From the baseline to the chosen run one changed field at a time, with what each costs", "explain", "x"),
    _a(_COMP, "compare.pin", "P", "Pin the baseline", "Tell all changes against the chosen run", "baseline", "P"),
    _a(_COMP, "compare.metric", "tab", "Next metric", "Overlay the curves of another metric, or the modelled memory over the program", "metric", "tab"),
    _a(_COMP, "compare.left", "left", "Run before", "Choose the run of the column before"),
    _a(_COMP, "compare.right", "right", "Next run", "Choose the run of the next column"),
    _a(_COMP, "compare.curves", "g", "Table or curves", "Give the keys to the curves, with their cursor, or back to the table"),
    _a(_COMP, "compare.differences", "d", "Only what differs", "Hide fields that are the same in all runs"),
    _a(_COMP, "compare.best", "b", "Best or last", "Show each metric's best or its last value"),
    _a(_COMP, "compare.add", "a", "Add a run", "Mark another run in the list", "add run", "a"),
    _a(_COMP, "compare.export", "e", "Export", "Write the comparison to a file", "export", "e"),
    _a(_COMP, "compare.clear", "backspace", "Clear the marks", "Take all runs out of the comparison"),
    _a(_REPORT, "report.next_ipu", "right,n", "Next IPU", "Tiles of the next IPU", "IPU", "←→"),
    _a(_REPORT, "report.previous_ipu", "left", "Previous IPU", "Tiles of the IPU before"),
    _a(_SCRIPT, "script.copy", "c", "Copy the script", "Put the script on the clipboard", "copy", "c"),
    _a(_SCRIPT, "script.save", "e", "Save the script", "Write the script to a file", "save", "e"),
)  # fmt: skip

_BY_ID = {spec.id: spec for spec in ACTIONS}
FOOTER_KEYS = 6
HELP = "app.help_here"
LIVE = ("run.pause", "run.stop")
"""Offered only while a run is live, and then before all else."""
FIXES = ("field.suggestion", "stage.mend")
"""Offered only where there is something to set."""


def action_of(action_id: str) -> ActionSpec:
    """Return the declaration of an action."""
    return _BY_ID[action_id]


def actions_in(*scopes: Scope) -> list[ActionSpec]:
    """Return the actions of some scopes, in the order of their declaration."""
    return [spec for spec in ACTIONS if spec.scope in scopes]


def bindings_for(*scopes: Scope) -> list[Binding]:
    """Return the bindings that a widget of these scopes has."""
    # The guards of the command line read this file without Textual.
    from textual.binding import Binding

    return [
        Binding(
            key=spec.keys,
            action=spec.action,
            description=spec.title,
            show=False,
            tooltip=spec.tooltip,
            id=spec.id,
            priority=spec.priority,
        )
        for spec in actions_in(*scopes)
    ]


def footer_actions(*scopes: Scope, without: Collection[str] = ()) -> list[ActionSpec]:
    """Return the few actions that the footer shows, the area's own first, help last."""
    own = [
        spec for spec in actions_in(*scopes) if spec.footer and spec.id not in without
    ]
    taken = {key for spec in actions_in(*scopes) for key in spec.keys.split(",")}
    everywhere = [
        spec
        for spec in actions_in(Scope.APP)
        if spec.footer
        and spec.id not in without
        and not taken.intersection(spec.keys.split(","))
    ]
    live = [spec for name in LIVE for spec in everywhere if spec.id == name]
    rest = [spec for spec in everywhere if spec.id not in (*LIVE, HELP)]
    shown = live + own[: FOOTER_KEYS - 2] + rest
    return [*shown[: FOOTER_KEYS - 1], action_of(HELP)]


def keys_shown(spec: ActionSpec, keymap: Mapping[str, str]) -> str:
    """Return how the keys of an action are written, remapped ones included."""
    if spec.id in keymap:
        return ", ".join(_pretty(key) for key in keymap[spec.id].split(","))
    return spec.key_display or _pretty(spec.keys.split(",")[0])


def all_keys(spec: ActionSpec, keymap: Mapping[str, str]) -> str:
    """Return every key of an action."""
    return ", ".join(_pretty(key) for key in keymap.get(spec.id, spec.keys).split(","))


_PRETTY = {
    "question_mark": "?", "slash": "/", "plus": "+", "minus": "-", "equals_sign": "=",
    "left_square_bracket": "[", "right_square_bracket": "]", "left": "←",
    "right": "→", "backspace": "bksp", "delete": "del",
}  # fmt: skip


def _pretty(key: str) -> str:
    key = key.strip()
    if key in _PRETTY:
        return _PRETTY[key]
    return key.upper() if key[0] == "f" and key[1:].isdigit() else key
