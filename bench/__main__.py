"""`python -m bench [--quick] [--only AREA]`: measure, print a table, write JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import sys
import time
from pathlib import Path

# Before TensorFlow is loaded by a part: its start-up lines and hints are no figures.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from bench.figure import Figure, table
from bench.machine import describe

PARTS = (
    "plans",
    "app",
    "engine",
    "own_models",
    "estimators",
    "instances",
    "streaming",
    "scripts",
    "memory",
    "limits",
)
RESULTS = Path(__file__).parent / "results.json"
logging.getLogger("tensorflow").setLevel(logging.ERROR)


def main() -> int:
    """Measure every part; the exit code tells whether all limits are kept."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer rounds, less than 3 minutes"
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="only this part")
    args = parser.parse_args()
    machine, began = describe(), time.perf_counter()
    figures: list[Figure] = []
    for part in args.only or PARTS:
        told_s = time.perf_counter() - began
        print(f"{told_s:4.0f} s  measuring {part}", file=sys.stderr, flush=True)
        figures += importlib.import_module(f"bench.{part}").measure(args.quick)
    took_s = time.perf_counter() - began
    RESULTS.write_text(
        json.dumps(
            {
                "machine": machine,
                "quick": args.quick,
                "seconds": round(took_s, 1),
                "figures": [figure.as_json() for figure in figures],
            },
            indent=1,
        )
        + "\n"
    )
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print(f"{'quick' if args.quick else 'full'} run, {took_s:.0f} s\n")
    print(table(figures))
    over = [figure.name for figure in figures if figure.within is False]
    print(f"\n{len(over)} over their limit" + (f": {', '.join(over)}" if over else ""))
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
