"""Small files that would cost much, and files that never end, cost nothing."""

from __future__ import annotations

import io
import json
import os
import resource
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.cases import cases, command, in_time
from workbench.headless.exit_codes import ExitCode
from workbench.runs.run_checkpoint import load
from workbench.runs.run_record import RunRecord
from workbench.store_json import RecordError

_LONGEST_S = 15
"""The time of a preset of 4 MiB; a loaded machine takes several times as long."""
_MORE_BYTES = 300 * 2**20

parts = st.sampled_from(["a", "1", '"a b"', "'.'", '"\\""', "é", "a-b_c"])
forms = st.sampled_from(
    [
        "{key} = 1\n",
        "[{key}]\nx = 1\n",
        "[[{key}]]\nx = 1\n",
        "x{n} = {{ {key} = 1 }}\n",
        'x{n} = {{ y = """\n""", {key} = "" }}\n',
        "x{n} = [\n{{ {key} = 1 }},\n]\n",
        "{key} = 1 # {key}\n",
    ]
)


@cases
@given(
    form=forms,
    part=parts,
    dot=st.sampled_from([".", " . ", ".\t"]),
    count=st.integers(1, 30_000),
    times=st.integers(1, 3_000),
    keys=st.integers(0, 20_000),
)
def test_keys_of_any_number_of_parts(
    tmp_path: Path, form: str, part: str, dot: str, count: int, times: int, keys: int
) -> None:
    path = tmp_path / "own.toml"
    times = max(1, min(times, 3_000_000 // (count * (len(part) + len(dot)))))
    lines = [form.format(key=dot.join([part] * count), n=n) for n in range(times)]
    path.write_text("".join(lines) + "".join(f"k{n} = 1\n" for n in range(keys)))
    with in_time(_LONGEST_S):
        assert command("plan", str(path)).code == ExitCode.USAGE


@cases
@given(
    name=st.sampled_from(["run.json", "metrics.jsonl", "plan.json", "lock", "run.log"]),
    told=st.sampled_from(
        [
            ("runs", "list"),
            ("runs", "show", "latest"),
            ("report", "latest", "--html", "x"),
        ]
    ),
)
def test_pipes_in_records(tmp_path: Path, name: str, told: tuple[str, ...]) -> None:
    record = RunRecord.create({}, "mnist-dense")
    record.close()
    (record.directory / name).unlink(missing_ok=True)
    os.mkfifo(record.directory / name)
    try:
        with in_time(_LONGEST_S):
            command(*told)
    finally:
        (record.directory / name).unlink()


@pytest.mark.parametrize(
    "name", ["own.toml", "own.keras", "own.h5", "own.json", "own.npz"]
)
def test_pipes_as_arguments(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    path = str(tmp_path / name)
    told = (
        (path,) if name != "own.npz" else ("mnist-dense", f"--set=data.dataset={path}")
    )
    with in_time(_LONGEST_S):
        assert command("plan", *told).code == ExitCode.USAGE


@cases
@given(
    members=st.integers(1, 40),
    size=st.sampled_from([10, 10**5, 10**7]),
    method=st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]),
    shape=st.sampled_from([(4,), (10**9,), (2**40,)]),
)
def test_checkpoints_of_any_size(
    tmp_path: Path, members: int, size: int, method: int, shape: tuple[int, ...]
) -> None:
    about = {"epoch": 1, "weights": members, "optimizer": 0, "extra": {}, "metrics": []}
    path = tmp_path / "epoch-000001.npz"
    with zipfile.ZipFile(path, "w", method) as archive:
        _write(archive, "about", json.dumps(about).encode())
        for index in range(min(members, 2 * 10**7 // size)):
            header = str({"descr": "|u1", "fortran_order": False, "shape": shape})
            start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
            content = start + header.encode() + bytes(size)
            archive.writestr(f"weight{index:05}.npy", content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with in_time(_LONGEST_S), suppress(RecordError):
        load(path)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < _MORE_BYTES


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    content = io.BytesIO()
    np.save(content, np.frombuffer(data, np.uint8))
    archive.writestr(f"{name}.npy", content.getvalue())
