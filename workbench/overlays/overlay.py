"""Changed fields, applied while a script configures the device and calls programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ipu_runtime.engine.watch.interception import Program
from workbench.overlays.script_fields import (
    COUNTS,
    FIELD_OF_SETTING,
    SETTING_OF_FIELD,
    WHOLE_EPOCH,
)
from workbench.overlays.script_lines import ScriptCode, ScriptLine, ScriptStopped

_USAGE, _NO_FIT = 2, 3


@dataclass(frozen=True, slots=True)
class Override:
    """A setting of the script that was replaced."""

    field: str
    script: Any
    """What the script asked for."""
    value: Any
    """What it got."""
    call: str
    """Which call takes it."""
    where: str
    """File and line of that call."""

    def __str__(self) -> str:
        return (
            f"{self.field}: {self.script} -> {self.value} ({self.call}, {self.where})"
        )


@dataclass
class Overlay:
    """Replaces settings of a script; refuses it when it does not take them."""

    changes: Mapping[str, Any]
    """Values by full dotted path."""
    code: ScriptCode
    tell: Callable[[str], None]
    inference: bool = False
    """Whether counts are those of a program that does not train."""
    applied: list[Override] = field(default_factory=list)
    """What was replaced, in the order of the script."""
    refused: int = 0
    """The exit code of a refusal; 0 if there was none."""
    _taken: set[str] = field(default_factory=set)
    """Fields that a call of the script takes."""
    _opening: ScriptLine | None = None
    """The line whose call is not accepted yet."""

    wants_layers = False

    def calling(
        self, call: str, training: bool, settings: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the changed settings of a call, or fields of a configuration."""
        other = training is self.inference
        wanted = {
            name: value
            for path, value in self.changes.items()
            if (name := SETTING_OF_FIELD[path]) in settings
            and not (other and name in COUNTS and value != WHOLE_EPOCH)
        }
        return self._replaced(call, settings, wanted)

    def starting(self, program: Program) -> None:
        """Accept a program, or refuse the script because it leaves fields out."""
        self._opening = None
        trains = program.name in ("fit", "train")
        if program.request is not None:
            trains = program.request.training
        if program.name in ("run", "compile") or trains is not self.inference:
            reasons = self.check_all_taken(program.name)
            if self.refused:
                stopped = ScriptStopped(self.refused)
                stopped.add_note("; ".join(reasons))
                raise stopped

    def noticed(self, what: str) -> None:
        """Nothing depends on it."""

    def check_all_taken(self, program: str) -> list[str]:
        """Refuse the script for fields that none of its calls takes; return why."""
        missing = [path for path in self.changes if path not in self._taken]
        reasons = [f"{path}: {_why(path, program)}" for path in missing]
        if reasons and not self.refused:
            for reason in reasons:
                self.tell(reason)
            self.refused = _USAGE
        return reasons

    def failed(self, error: BaseException) -> int | None:
        """Return the exit code if an error of a program comes from the changes."""
        if self._opening is None or not self.applied:
            return None
        if self._opening not in self.code.lines_of(error):
            return None
        text = str(error).strip().partition("\n")[0]
        name = type(error).__name__
        self.tell(f"{self._opening}: the changes do not suit it: {name}: {text}")
        self.refused = _NO_FIT if name == "ResourceExhaustedError" else _USAGE
        return self.refused

    def _replaced(
        self,
        call: str,
        now: Mapping[str, Any],
        wanted: Mapping[str, Any],
    ) -> dict[str, Any]:
        self._opening = self.code.line_now()
        self._taken.update(FIELD_OF_SETTING[name] for name in wanted)
        changed = {name: value for name, value in wanted.items() if value != now[name]}
        for name, value in changed.items():
            where = str(self._opening or "")
            override = Override(FIELD_OF_SETTING[name], now[name], value, call, where)
            if override not in self.applied:
                self.tell(str(override))
                self.applied.append(override)
        return changed


def _why(path: str, program: str) -> str:
    if path.startswith("ipu."):
        return "the script configures no device that could take it"
    if path == "pipeline.stages":
        return f"the stages of {program} are functions of the script, or it has none"
    if path.startswith("pipeline."):
        stages = ": give it pipeline.stages too" if program == "fit" else ""
        return f"{program} is no pipeline{stages}"
    return f"no call before {program} takes it"
