"""Checkpoints: whole or refused, and the newest readable one is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from workbench.runs.run_checkpoint import (
    Checkpoint,
    latest,
    load,
    place_of,
    save,
)
from workbench.store_json import RecordError


def _checkpoint(epoch: int) -> Checkpoint:
    weights = np.full((2, 3), epoch / 7, dtype=np.float32), np.zeros(3, np.float16)
    counter = np.array(epoch * 5, dtype=np.int64)
    return Checkpoint(epoch, weights, (counter,), {"step": 3}, ({"loss": 0.5},))


def test_a_checkpoint_keeps_every_bit_and_type(tmp_path: Path) -> None:
    restored = load(save(tmp_path, _checkpoint(4)))

    original = _checkpoint(4)
    assert restored.epoch == 4
    for ours, theirs in zip(restored.weights, original.weights, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == theirs.tobytes()
    assert restored.optimizer[0] == 20
    assert (restored.extra, restored.metrics) == ({"step": 3}, ({"loss": 0.5},))


def test_only_the_last_two_are_kept(tmp_path: Path) -> None:
    for epoch in (1, 2, 9, 10):
        save(tmp_path, _checkpoint(epoch))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["epoch-000009.npz", "epoch-000010.npz"]


@pytest.mark.parametrize("keep", [0, 10, -30])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    tmp_path: Path, keep: int
) -> None:
    save(tmp_path, _checkpoint(1))
    newest = save(tmp_path, _checkpoint(2))
    newest.write_bytes(newest.read_bytes()[:keep])

    assert latest(tmp_path) == tmp_path / "epoch-000001.npz"
    assert place_of(latest(tmp_path)) == (2, 0)
    with pytest.raises(RecordError, match="is not a readable checkpoint"):
        load(newest)


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = save(tmp_path, _checkpoint(1))
    content = bytearray(path.read_bytes())
    content[content.index(b"weight00000") + 160] ^= 1
    path.write_bytes(content)
    assert latest(tmp_path) is None


def test_without_checkpoints_a_run_begins_at_the_first_epoch(tmp_path: Path) -> None:
    (tmp_path / "epoch-000003.npz.tmp").write_text("x")
    assert latest(tmp_path) is None
    assert latest(tmp_path / "absent") is None
    assert place_of(None) == (1, 0)


def test_code_in_a_checkpoint_is_never_run(tmp_path: Path) -> None:
    path = tmp_path / "epoch-000001.npz"
    np.savez(path, about=np.array([{"epoch": 1}], dtype=object))
    with pytest.raises(RecordError, match="allow_pickle"):
        load(path)
