"""Capturing a script: run it up to a program, and make an experiment of that."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ipu_runtime.engine.watch.interception import intercepted_by
from ipu_runtime.installing.script import run_script
from ipu_runtime.plan.problem import Problem
from ipu_runtime.system.file_replacing import replace_file
from workbench.experiment.toml_text import to_toml
from workbench.experiment.validation import validate
from workbench.models.captured_model import CapturedModel, write_capture
from workbench.models.code_trust import trust
from workbench.models.model_source import CAPTURE_ENDING, SourceError, parse_source
from workbench.models.source_reading import read_source
from workbench.overlays.capture import Capture
from workbench.overlays.captured_tables import captured_source, captured_tables
from workbench.overlays.patch import patch_lines
from workbench.overlays.script_fields import script_changes
from workbench.overlays.script_lines import code_of
from workbench.services.refused import Refused
from workbench.store_json import explained

_FAILED = 1


@dataclass(frozen=True, slots=True)
class CapturedScript:
    """What a script was about to run."""

    script: str
    arguments: tuple[str, ...]
    capture: Capture
    tables: dict[str, Any]
    """As an experiment, with the model in it."""
    remarks: Sequence[str]
    """What the experiment has otherwise."""

    def patch(self, tables: Mapping[str, Any]) -> list[str]:
        """Return the calls that would make the script as an experiment is."""
        changes = script_changes(tables, self.tables)
        return list(patch_lines(self.capture, changes, tables))


def capture_script(
    script: str, arguments: Sequence[str] = (), program: str = "1"
) -> CapturedScript:
    """Run a script in this process up to a program of the IPU, and stop it there.

    The process is not good for another script then: what the script has changed in
    Python and TensorFlow stays. `ScriptCommand.capture_words` is for a process of its
    own.

    Args:
        script: The file; to name it says that it is trusted.
        arguments: Its own.
        program: Number or name of the program; those before it run.
    """
    with suppress(SourceError):
        trust(Path(script))
    capture = Capture(code_of(script), program)
    with intercepted_by(capture):
        code = run_script(script, list(arguments))
    if capture.program is None:
        raise _nothing_captured(script, program, capture, code)
    if capture.program.request is None:
        reason = f"{capture.seen[-1]} cannot be planned: {capture.program.reason}"
        raise _failed(reason)
    title = f"{' '.join([os.path.basename(script), *arguments])}, {capture.seen[-1]}"
    tables, remarks = captured_tables(capture, title, Path(script).stem)
    return CapturedScript(script, tuple(arguments), capture, tables, remarks)


def _nothing_captured(
    script: str, program: str, capture: Capture, code: int
) -> Refused:
    if code:
        # The script has said why.
        refused = Refused.for_problems(())
        refused.code = code
        return refused
    if not capture.seen:
        return _failed(f"{script} has run no program on the IPU")
    hint = f"valid: 1 to {len(capture.seen)}, {', '.join(capture.seen)}"
    return Refused(f"{script} has no program {program}", hint, "--program")


def _failed(reason: str) -> Refused:
    refused = Refused(reason)
    refused.code = _FAILED
    return refused


def write_captured(
    captured: CapturedScript, output: str, tell: Callable[[str], None]
) -> tuple[Problem, ...]:
    """Write the experiment, its model in a file beside it; return what is wrong."""
    path = Path(os.path.expanduser(output))
    beside = path.with_suffix(CAPTURE_ENDING)
    script, capture = os.path.abspath(captured.script), captured.capture
    assert capture.program is not None
    tables, name = captured.tables, capture.seen[-1]
    source = captured_source(capture.program)
    model = CapturedModel(script, captured.arguments, name, source, tables)
    write_capture(beside, model)
    table = {**tables, "model": {"source": beside.name}}
    made_up = (
        f"data.dataset: {tables['data']['train_samples']:,} made-up samples stand for "
        "the script's own data, for planning; exec takes the script's"
    )
    tell(made_up)
    notes = [f"# Captured from {name} of {script}", made_up, *captured.remarks]
    with explained(path):
        replace_file(path, "\n# ".join(notes) + "\n\n" + to_toml(table))
    tell(f"{path} written")
    read = parse_source(str(beside))
    read_source(read, tell, trust=False, calls=False)
    _, problems = validate({**tables, "model": {"source": read.text}})
    return tuple(problems)
