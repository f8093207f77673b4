"""`--executable_cache_path`: programs that were compiled before load quickly."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ipu_runtime.plan.plan import Plan
from ipu_runtime.poplar_flags import current_flags
from ipu_runtime.reports.plan_json import plain

LOAD_SHARE = 0.1
"""Assumed: loading a cached executable takes a tenth of compiling it."""


def modelled_compile_s(name: str, plan: Plan) -> float:
    """Return the modelled time of compiling, or of loading a cached executable.

    A program that was not in the cache is in it afterwards.
    """
    path = current_flags().executable_cache_path
    if not path:
        return plan.compile_s
    file = Path(path) / f"{_fingerprint(name, plan)}.poplar_exec"
    if file.exists():
        return plan.compile_s * LOAD_SHARE
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {"emulated": True, "program": name, "compile_s": plan.compile_s}
    file.write_text(json.dumps(content), encoding="utf-8")
    return plan.compile_s


def _fingerprint(name: str, plan: Plan) -> str:
    request = json.dumps([name, plain(plan.request)], sort_keys=True)
    return hashlib.sha256(request.encode()).hexdigest()[:16]
