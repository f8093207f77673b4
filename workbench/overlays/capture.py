"""Running a script up to a program, to see what it was about to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ipu_runtime.engine.watch.interception import CONFIGURATION, Program
from ipu_runtime.plan.config.config_fields import IPU_CONFIG_FIELD
from workbench.overlays.script_lines import ScriptCode, ScriptLine, ScriptStopped


@dataclass
class Capture:
    """Sees the settings of a script and stops it before the wanted program runs."""

    code: ScriptCode
    wanted: str = "1"
    """Number of the program, or its name: `evaluate` is the first of them."""
    program: Program | None = None
    seen: list[str] = field(default_factory=list)
    """Names of the programs so far, numbered by their call: `fit-1`."""
    fields: dict[str, Any] = field(default_factory=dict)
    """What the script has configured."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What the program's calls take, by the runtime's names."""
    lines: dict[str, ScriptLine] = field(default_factory=dict)
    """Where the script calls what settings are given to."""
    _counts: Counter[str] = field(default_factory=Counter)

    wants_layers = True

    def calling(
        self, call: str, training: bool, settings: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Keep the settings of a call, or what is configured."""
        del training
        if call != CONFIGURATION:
            self.settings |= settings
            return {}
        self.fields = {
            path: settings[f"ipu.{path}"]
            for path, field in IPU_CONFIG_FIELD.items()
            if settings[f"ipu.{path}"] != field.default
        }
        return {}

    def starting(self, program: Program) -> None:
        """Stop at the wanted program; let others run."""
        self._counts[program.name] += 1
        name = f"{program.name}-{self._counts[program.name]}"
        self.seen.append(name)
        names = {str(len(self.seen)), name, name.removesuffix("-1")}
        if self.wanted in names:
            self.program = program
            raise ScriptStopped(0)
        self.settings.clear()

    def noticed(self, what: str) -> None:
        """Keep the line of a call."""
        line = self.code.line_now()
        if line is None:
            return
        if what.startswith("ipu."):
            # Applying a configuration sets fields once more.
            self.lines.setdefault(what, line)
        else:
            self.lines[what] = line
