"""`python -m docs.measure [PRESET...]`: run presets and keep what they reached.

The README's table of examples shows these figures beside those of the documents.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.machine import describe
from docs.tables import MEASURED
from presets import EXAMPLES


def measure(preset: str) -> dict[str, Any]:
    """Run a preset headless and return its last epoch and evaluation."""
    command = (sys.executable, "-m", "workbench", "run", preset, "--json")
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    events = [json.loads(line) for line in finished.stdout.splitlines()]
    last = [event for event in events if event["event"] == "epoch_ended"][-1]
    tested = [event for event in events if event["event"] == "evaluated"]
    return {
        "epochs": last["epoch"],
        "loss": last["loss"],
        "accuracy": last["accuracy"],
        "host_step_ms": last["host_step_ms"],
        "ipu_step_us": last["ipu_step_us"],
        "test_accuracy": tested[-1]["accuracy"] if tested else None,
    }


def main() -> None:
    """Measure the named presets, or all examples, and store them."""
    stored: dict[str, Any] = {}
    if MEASURED.exists():
        stored = json.loads(MEASURED.read_text(encoding="utf-8"))["presets"]
    for preset in sys.argv[1:] or EXAMPLES:
        print(f"running {preset}", file=sys.stderr, flush=True)
        stored[preset] = measure(preset)
        _store(MEASURED, {"machine": describe(), "presets": stored})


def _store(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
