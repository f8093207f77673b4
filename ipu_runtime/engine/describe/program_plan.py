"""The plan of a program: its modelled times, and whether it fits."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import tensorflow as tf

from ipu_runtime.engine.watch.observer import ProgramPlan
from ipu_runtime.plan.plain_data import plain
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.system.device import Device
from ipu_runtime.system.file_replacing import replace_file
from ipu_runtime.system.poplar_flags import current_flags

LOAD_SHARE = 0.1
"""Assumed: loading a cached executable takes a tenth of compiling it."""


def plan_program(name: str, request: PlanRequest, device: Device) -> ProgramPlan:
    """Plan a program; raise if the device has no room for it."""
    plan = make_plan(request)
    check_room(plan, device)
    planned = _planned(request, plan)
    if planned.plan is None:
        return planned
    return replace(planned, compile_s=_modelled_compile_s(name, plan))


def plan_watched(request: PlanRequest) -> ProgramPlan:
    """Plan a program for who watches it, whether the device has room for it or not."""
    return _planned(request, make_plan(request))


def _planned(request: PlanRequest, plan: Plan) -> ProgramPlan:
    """Return a plan with its request, or why its time cannot be modelled."""
    if plan.step is None:
        reason = "; ".join(str(problem) for problem in plan.problems)
        return ProgramPlan(request, None, reason)
    return ProgramPlan(request, plan, compile_s=plan.compile_s)


def check_room(plan: Plan | None, device: Device) -> None:
    """Raise if the device has no room for a program, unless it may be too large."""
    if plan is None or not device.check_memory:
        return
    too_full = [item for item in plan.problems if item.severity is Severity.NO_FIT]
    if not too_full:
        return
    fullest = max(plan.memory, key=lambda item: item.fullest_tile_bytes)
    excess = fullest.fullest_tile_bytes - fullest.tile_capacity_bytes
    error = tf.errors.ResourceExhaustedError(
        None,
        None,
        f"Memory allocation error : Out of memory on tile 0: "
        f"{fullest.fullest_tile_bytes} bytes used but tiles only have "
        f"{fullest.tile_capacity_bytes} bytes of memory. IPU {fullest.ipu} exceeds its "
        f"modelled memory by {excess} bytes on its fullest tile; set "
        "debug.allowOutOfMemory in POPLAR_ENGINE_OPTIONS to run nevertheless.",
    )
    # Below the traceback, in the words that an experiment has for the same.
    error.add_note(f"ipu_runtime: {too_full[0].problem}")
    error.add_note(f"ipu_runtime: {too_full[0].hint or 'nothing that was tried helps'}")
    raise error


def _modelled_compile_s(name: str, plan: Plan) -> float:
    """Return the modelled time of compiling, or of loading a cached executable.

    With `--executable_cache_path`, a program that was not in the cache is in it
    afterwards.
    """
    path = current_flags().executable_cache_path
    if not path:
        return plan.compile_s
    file = Path(path) / f"{_fingerprint(name, plan)}.poplar_exec"
    if file.exists():
        return plan.compile_s * LOAD_SHARE
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {"emulated": True, "program": name, "compile_s": plan.compile_s}
    replace_file(file, json.dumps(content))
    return plan.compile_s


def _fingerprint(name: str, plan: Plan) -> str:
    request = json.dumps([name, plain(plan.request)], sort_keys=True)
    return hashlib.sha256(request.encode()).hexdigest()[:16]
