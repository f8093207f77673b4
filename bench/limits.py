"""What experiments and stores cost at their limits, each command in its own process.

Processor time counts, so that a busy machine measures the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figure import Figure
from bench.side_by_side import of_samples
from workbench.experiment.preset_store import load_preset
from workbench.experiment.tables import spec_to_tables
from workbench.experiment.toml_text import to_toml
from workbench.experiment.validation import validate

AREA = "limits (processor time)"
REFUSED = (2,)
# A process begins with the peak of the one that started it, which must thus be small:
# with TensorFlow loaded for other figures, this one is not.
_WATCHED = """
import os, sys
quiet = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
words = [sys.executable, *sys.argv[1:]]
process = os.posix_spawn(sys.executable, words, os.environ, file_actions=quiet)
_, status, used = os.wait4(process, 0)
seconds = used.ru_utime + used.ru_stime
print(os.waitstatus_to_exitcode(status), seconds, used.ru_maxrss)
"""


def measure(quick: bool) -> Iterator[Figure]:
    """Yield time and memory of each limit."""
    with TemporaryDirectory() as folder:
        home = Path(folder)
        alike = _layers(home, 1_000, 64, sizes=1)
        yield _figure(home, "1,000 layers, 64 stages", ("plan", alike), 1.5)
        other = _layers(home, 1_000, 64, sizes=997)
        yield _figure(home, "the same, each of its own size", ("plan", other), 1.5)
        many = _micro_batches(100_000)
        yield _figure(home, "100,000 micro-batches", ("plan", *many), 2.0)
        trace = (*many, "--trace", str(home / "trace.json"))
        yield _figure(home, "their trace, middle left out", ("plan", *trace))
        schedules = (*_micro_batches(24_000), "--schedules")
        yield _figure(home, "all schedules of 48,000 passes", ("plan", *schedules))
        keys = home / "keys.toml"
        keys.write_text(".".join(["a"] * 3_100) + " = 1\n")
        yield _figure(
            home, "TOML key of 3,100 parts", ("plan", str(keys)), None, REFUSED
        )
        keys.write_text(".".join(["a"] * 20_000) + " = 1\n")
        yield _figure(
            home, "TOML key of 20,000, refused", ("plan", str(keys)), 1.0, REFUSED
        )
        whole = home / "whole.toml"
        whole.write_text("x = [" + "1.25, " * 690_000 + "]\n")
        yield _figure(home, "preset of 4 MiB", ("plan", str(whole)), None, REFUSED)
        for count, limit in ((5_000, 0.5), (100_000, None))[: 1 if quick else 2]:
            _fill_store(home / "runs", count)
            _run(home, ("runs", "list"))
            yield _figure(home, f"list of {count:,} runs", ("runs", "list"), limit)
        if not quick:
            large = _layers(home, 20_000, 64, sizes=997)
            yield _figure(home, "20,000 layers, 64 stages", ("plan", large), 20.0)


def _figure(
    home: Path,
    name: str,
    command: tuple[str, ...],
    limit: float | None = None,
    codes: tuple[int, ...] = (0, 3),
) -> Figure:
    took, peak_bytes = _run(home, command, codes)
    note = f"peak {peak_bytes / 2**20:,.0f} MiB"
    return of_samples(AREA, name, [took], "s", limit=limit, note=note)


def _run(
    home: Path, command: tuple[str, ...], codes: tuple[int, ...] = (0, 3)
) -> tuple[float, int]:
    """Return processor time and peak memory of a command."""
    told = subprocess.run(
        (sys.executable, "-S", "-c", _WATCHED, "-m", "workbench", *command),
        env=_environment(home),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    code, seconds, peak_kib = told.stdout.split()
    assert int(code) in codes, command
    return float(seconds), int(peak_kib) * 1024


def _environment(home: Path) -> dict[str, str]:
    # Where Python may not keep what it compiles, every start would compile it again.
    writes = "PYTHONDONTWRITEBYTECODE"
    kept = {name: value for name, value in os.environ.items() if name != writes}
    return {**kept, "IPU_WORKBENCH_HOME": str(home)}


def _layers(home: Path, count: int, stages: int, sizes: int) -> str:
    """Write a preset of dense layers of so many sizes."""
    tables = dict(load_preset("mnist-ipu-pipelined").tables)
    layers = [{"name": "in", "kind": "Input", "shape": [64]}]
    layers += [
        {"name": f"d{n}", "kind": "Dense", "units": 16 + n * 37 % sizes}
        for n in range(count - 2)
    ]
    layers.append({"name": "out", "kind": "Dense", "units": 10})
    tables["model"] = {"layers": layers}
    tables["pipeline"] = {"stages": [n * stages // count for n in range(count - 1)]}
    tables["ipu"] = {"auto_select_ipus": stages}
    tables["data"] = {"dataset": "synthetic", "batch_size": 4, "train_samples": 5_120}
    tables["execution"] |= {"system": "Pod64", "gradient_accumulation": 2 * stages}
    path = home / f"layers-{count}-{sizes}.toml"
    path.write_text(to_toml(tables))
    return str(path)


def _micro_batches(count: int) -> tuple[str, ...]:
    changes = (
        "data.dataset=synthetic",
        "data.batch_size=1",
        f"data.train_samples={count}",
        f"execution.gradient_accumulation={count}",
    )
    return ("mnist-ipu-pipelined", *(f"--set={change}" for change in changes))


def _fill_store(root: Path, count: int) -> None:
    """Write records of finished runs that have been there for long."""
    spec, problems = validate(load_preset("mnist-ipu-pipelined").tables)
    assert spec is not None, problems
    description = {
        "format": 1,
        "preset": "mnist-ipu-pipelined",
        "status": "finished",
        "created": "2026-01-01T00:00:00+00:00",
        "spec": spec_to_tables(spec),
        "summary": {"epochs": 3, "loss_last": 0.3, "accuracy_last": 0.9},
    }
    text = json.dumps(description, default=str)
    for number in range(count):
        directory = root / f"260101-{number:06}"
        if not directory.exists():
            directory.mkdir(parents=True)
            (directory / "run.json").write_text(text)
            os.utime(directory / "run.json", (10**9, 10**9))
