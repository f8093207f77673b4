"""Reports of compiled programs: a `tf_report` directory for each of them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.plan_json import plan_to_json
from ipu_runtime.plan.planner import walk_memory
from ipu_runtime.plan.quantities import microseconds
from ipu_runtime.plan.step_parts import step_words
from ipu_runtime.reports.document import Column, Document, Note, Row, Section, Table
from ipu_runtime.reports.document_html import document_page
from ipu_runtime.reports.event_trace import record_event
from ipu_runtime.reports.memory_sections import walk_section
from ipu_runtime.reports.plan_document import layers_section, plan_document
from ipu_runtime.system.device_state import current_state
from ipu_runtime.system.engine_options import current_engine_options
from ipu_runtime.system.file_replacing import replace_file

_FOOTER = "Modelled by an emulated IPU runtime; nothing here was measured on an IPU."


@dataclass
class ProgramReport:
    """One program from compiling to its last execution."""

    name: str
    """For example `train`."""
    plan: Plan | None
    reason: str = ""
    """Why there is no plan."""
    directory: Path | None = None
    """Where the report goes; None: no report was asked for."""
    execution: dict[str, Any] = field(default_factory=dict)
    """What was measured and modelled about running it."""

    def executed(self, *, executions: int, steps: int, host_s: float) -> None:
        """Add what running the program took; may be called again with new totals."""
        step_us = self.plan.ipu_step_us if self.plan else 0.0
        self.execution = {
            "executions": executions,
            "steps_per_replica": steps,
            "measured_host_s": host_s,
            "measured_host_ms_per_step": 1e3 * host_s / steps if steps else 0.0,
            "modelled_ipu_us_per_step": step_us,
            "modelled_ipu_s": steps * step_us / 1e6,
        }
        record_event("execute", self.name, self.execution)
        self.write()

    def write(self) -> None:
        """Write what is known so far, if anybody asked for it."""
        if self.directory is None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        framework = {"cluster": self.name, "emulated": True, "pid": os.getpid()}
        self._dump("framework.json", framework)
        if self.plan is not None:
            plan = plan_to_json(self.plan)
            self._dump("plan.json", plan)
            self._dump("memory.json", plan["memory"])
        if self.execution:
            self._dump("execution.json", self.execution)
        shown = program_page(self.name, self.plan, self.reason, self.execution)
        replace_file(self.directory / "report.html", shown)

    def _dump(self, file: str, content: Any) -> None:
        assert self.directory is not None
        text = json.dumps(content, indent=1, allow_nan=False, default=str)
        replace_file(self.directory / file, f"{text}\n")


def reports_wanted() -> bool:
    """Tell whether anybody asked for reports or events."""
    return current_engine_options().report or current_state().options.event_trace


def report_program(name: str, plan: Plan | None, reason: str = "") -> ProgramReport:
    """Start the report of a program that was just compiled.

    Nothing is written unless POPLAR_ENGINE_OPTIONS asks for reports.
    """
    options = current_engine_options()
    directory = _new_directory(options.report_directory) if options.report else None
    report = ProgramReport(name, plan, reason, directory)
    if current_state().options.event_trace:
        compiled = plan_to_json(plan) if plan is not None else {"reason": reason}
        record_event("compile end", name, compiled)
    report.write()
    return report


def _new_directory(base: Path) -> Path:
    """Make the directory, so that a second program of the same second gets another."""
    stamp = datetime.now().isoformat(timespec="milliseconds").replace(":", "-")
    for attempt in range(1000):
        suffix = f"_{attempt}" if attempt else ""
        directory = base / f"tf_report__{stamp}{suffix}__{os.getpid()}"
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            continue
        return directory
    raise FileExistsError(f"{base}: no free name for a report directory")


def program_page(
    name: str, plan: Plan | None, reason: str, execution: Mapping[str, Any]
) -> str:
    """Return a self-contained HTML page."""
    document = Document(f"Program {name}", ())
    if plan is None:
        note = Note(f"There is no plan of this program: {reason}.")
        sections = [Section("", (note,))]
    else:
        document = plan_document(plan, f"Program {name}")
        sections = [*document.sections, walk_section(walk_memory(plan))]
        if plan.schedule is not None:
            sections.append(layers_section(plan.layers))
    if execution:
        sections.append(_execution(execution, plan.replicas if plan else 1))
    shown = tuple(section for section in sections if section.parts)
    document = Document(document.title, shown, document.subtitle)
    return document_page(document, _FOOTER, f"Report of program {name}")


def _execution(execution: Mapping[str, Any], replicas: int) -> Section:
    step = f"time of a step ({step_words(replicas)})"
    measured = execution["measured_host_ms_per_step"]
    values = {
        "executions": str(execution["executions"]),
        "steps of one replica": str(execution["steps_per_replica"]),
        f"{step} on this machine, measured": (
            microseconds(1e3 * measured) if measured else "too short to tell"
        ),
        f"{step} on the IPU, modelled": microseconds(
            execution["modelled_ipu_us_per_step"]
        ),
        "time of all steps on the IPU, modelled": microseconds(
            1e6 * execution["modelled_ipu_s"]
        ),
    }
    rows = tuple(map(Row, values.items()))
    table = Table((Column(), Column("value", right=True)), rows)
    return Section("Execution", (table,))
