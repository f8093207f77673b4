"""The list of what the emulator has says the truth."""

from __future__ import annotations

import subprocess
import sys

from ipu_runtime.coverage import PARTIAL_NOTES, Standing, api_coverage


def test_every_name_is_listed_once() -> None:
    names = [(item.area, item.name) for item in api_coverage()]
    assert len(names) == len(set(names))


def test_notes_belong_to_listed_names() -> None:
    assert PARTIAL_NOTES.keys() <= {item.name for item in api_coverage()}


def test_promised_modules_exist() -> None:
    standing = {item.name: item.standing for item in api_coverage()}
    assert standing["ipu.config"] is Standing.FULL
    assert standing["ipu.embedding_ops"] is Standing.ABSENT
    assert standing["model.set_pipelining_options"] is Standing.FULL
    assert standing["optimizations.math.fast"] is Standing.STORED


def test_listing_does_not_load_tensorflow() -> None:
    code = (
        "import sys; from ipu_runtime.coverage import api_coverage; api_coverage(); "
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
