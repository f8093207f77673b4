"""Records a script: what it prints, what its calls report, and how it ends."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from ipu_runtime.engine.watch.observer import ProgramCall, process_observed_by
from ipu_runtime.plan.placements import placed
from ipu_runtime.plan.plain_data import plain
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.plan_json import plan_to_json
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.request_json import request_to_json
from workbench.error_line import telling_line
from workbench.experiment.ipu_tables import nested_ipu
from workbench.locations import NoHomeError
from workbench.runs.events import Event, RunEnded, RunStarted, RunStatus
from workbench.runs.run_record import RunRecord
from workbench.runs.run_summary import noted
from workbench.runs.series import TRAINING
from workbench.scripts.git_commit import commit_of
from workbench.scripts.record_thread import RecordThread
from workbench.scripts.script_log import copied_output
from workbench.scripts.script_observer import ScriptObserver
from workbench.store_json import RecordError


class ScriptRecording:
    """Keeps a run of a script; an `ipu_runtime.installing` ScriptWatch.

    Nothing that goes wrong here may change what the script does.
    """

    def __init__(self, overridden: Sequence[object] = (), tell: int = -1) -> None:
        """Record what happens.

        Args:
            overridden: What was overridden until the end.
            tell: Descriptor through which the record's id is told; -1 for nobody.
        """
        self._overridden, self._tell = overridden, tell
        self._record: RunRecord | None = None
        self._thread: RecordThread | None = None
        self._watching = ExitStack()
        self._began_s = time.perf_counter()
        self._summary: dict[str, Any] = {}
        self._tables: dict[str, Any] = {}
        self._plans: dict[int, tuple[Plan, str]] = {}
        self._main_kind = ""
        """Kind of the call whose plan and settings stand for the whole script."""

    def began(self, script: str, arguments: Sequence[str]) -> None:
        """Open a record and begin to watch."""
        file = Path(script)
        self._tables = {
            "script": {
                "file": str(file.resolve()),
                "arguments": list(arguments),
                "commit": commit_of(file),
                "directory": os.getcwd(),
            }
        }
        try:
            record = RunRecord.create(self._tables, file.name)
            self._tell_record(record.run_id)
        except (RecordError, NoHomeError, OSError) as error:
            print(f"ipu-workbench: {error}; no record is kept", file=sys.stderr)
            return
        self._record, self._thread = record, RecordThread(record)
        self._began_s = time.perf_counter()
        self._send(RunStarted(record.run_id, file.name, self._tables))
        os.register_at_fork(after_in_child=self._leave_to_parent)
        observer = ScriptObserver(self._send, self._keep_plan)
        self._watching.enter_context(copied_output(self._thread.keep))
        self._watching.enter_context(process_observed_by(observer))

    def _tell_record(self, run_id: str) -> None:
        """Tell who has started this process, and keep the pipe from the script."""
        if self._tell >= 0:
            with os.fdopen(self._tell, "w") as parent:
                parent.write(f"{run_id}\n")

    def ended(self, code: int, error: BaseException | None) -> None:
        """Write how the script ended, and let go of the record."""
        self._watching.close()
        record, thread = self._record, self._thread
        if record is None or thread is None:
            return
        status, message = _outcome(code, error)
        self._summary["seconds"] = round(time.perf_counter() - self._began_s, 3)
        self._summary["exit_code"] = code
        if self._overridden:
            self._summary["overridden"] = [str(item) for item in self._overridden]
        self._send(RunEnded(status, message, dict(self._summary)))
        thread.close()
        try:
            record.finish(status, message or thread.problem, self._summary)
        except RecordError as problem:
            thread.give_up(problem)

    def _send(self, event: Event) -> None:
        if self._thread is not None:
            self._thread.send(event)
        if not getattr(event, "call", "").startswith("validate"):
            self._summary |= noted(event)

    def _keep_plan(self, call: ProgramCall) -> str:
        """Keep a program's plan once; return its file in the record."""
        record, thread, plan = self._record, self._thread, call.planned.plan
        if record is None or thread is None:
            return ""
        first_training = call.kind in TRAINING and self._main_kind not in TRAINING
        if not self._main_kind or first_training:
            self._main_kind = call.kind
            self._tables = {**self._tables, **program_tables(call)}
            thread.put(partial(record.describe, self._tables))
            if plan is not None:
                thread.put(partial(_write_plan, record, plan, "plan.json"))
        if plan is None:
            return ""
        if id(plan) not in self._plans:
            file = f"plans/{len(self._plans) + 1}.json"
            self._plans[id(plan)] = plan, file
            thread.put(partial(_write_plan, record, plan, file))
        return self._plans[id(plan)][1]

    def _leave_to_parent(self) -> None:
        """Be quiet in a process that the script has forked."""
        if self._thread is not None and self._record is not None:
            self._thread.problem = "this process was forked"
            self._record.close()


def _write_plan(record: RunRecord, plan: Plan, file: str) -> None:
    content = plan_to_json(plan)
    content["request"] = request_to_json(plan.request)
    record.write_plan(content, file)


def _outcome(code: int, error: BaseException | None) -> tuple[RunStatus, str]:
    if isinstance(error, KeyboardInterrupt):
        return RunStatus.STOPPED, "interrupted"
    if error is not None and not isinstance(error, SystemExit):
        text = telling_line(error)
        return RunStatus.FAILED, f"{type(error).__name__}: {text}"
    if code == 0:
        return RunStatus.FINISHED, ""
    # Who ends a script from outside says there why.
    reasons = getattr(error, "__notes__", [f"the script ended with exit code {code}"])
    return RunStatus.FAILED, "; ".join(reasons)


def program_tables(call: ProgramCall) -> dict[str, Any]:
    """Return the settings of a call, so that runs of scripts can be compared."""
    request = call.planned.request
    if request is None:
        return {}
    tables: dict[str, Any] = {
        "data": {"batch_size": request.batch_size},
        "model": {"dtype": request.model.dtype},
        "train": {"optimizer": request.optimizer, "epochs": call.epochs},
        "execution": {
            "steps_per_execution": request.steps_per_execution,
            "gradient_accumulation": request.gradient_accumulation,
            "system": request.system,
        },
        "ipu": {"auto_select_ipus": request.ipus, **nested_ipu(request.config)},
        **_pipeline(request),
    }
    content: dict[str, Any] = plain(tables)
    return content


def _pipeline(request: PlanRequest) -> dict[str, Any]:
    pipeline = request.pipeline
    if pipeline is None:
        return {}
    return {
        "pipeline": {
            "stages": list(pipeline.stage_of_layer),
            "schedule": pipeline.schedule,
            "recomputation": pipeline.recomputation,
            "device_mapping": list(pipeline.device_mapping),
            **placed(pipeline),
        }
    }
