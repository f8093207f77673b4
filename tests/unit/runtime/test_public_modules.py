"""Which names of the real API lead to which module, and what is said of others."""

from __future__ import annotations

from pathlib import Path

import pytest

import ipu_runtime
from ipu_runtime import ops
from ipu_runtime.installing.public_modules import module_of, target_of

_OPS = [p.stem for p in Path(ipu_runtime.__file__).parent.glob("ops/[a-z]*.py")]


@pytest.mark.parametrize("name", _OPS)
def test_every_file_of_operations_is_reached_by_both_names(name: str) -> None:
    assert module_of(name) == f"ipu_runtime.ops.{name}"
    for prefix in ("tensorflow.python.ipu", "tensorflow.python.ipu.ops"):
        assert target_of(f"{prefix}.{name}") == f"ipu_runtime.ops.{name}"


def test_our_own_rooms_are_no_part_of_the_api() -> None:
    rooms = ("engine", "plan", "reports", "system", "installing", "__main__", "no_such")
    assert [module_of(room) for room in rooms] == [None] * len(rooms)


def test_a_missing_module_of_the_real_package_is_named() -> None:
    with pytest.raises(AttributeError) as error:
        _ = ipu_runtime.vertex_edsl
    assert str(error.value) == (
        "module 'ipu' has no attribute 'vertex_edsl'; the emulator does not have it"
    )


def test_a_missing_package_of_operations_is_named() -> None:
    with pytest.raises(AttributeError) as error:
        _ = ops.experimental
    assert str(error.value) == (
        "module 'ipu_runtime.ops' has no attribute 'experimental'; "
        "the emulator does not have it"
    )


def test_what_nobody_has_is_simply_not_there() -> None:
    with pytest.raises(AttributeError, match=r"'nonsense'$"):
        _ = ipu_runtime.nonsense
