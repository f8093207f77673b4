"""Asking for hardware that no system has."""

from __future__ import annotations

import pytest

from ipu_runtime.config import IPUConfig
from ipu_runtime.system.device_state import current_state

pytestmark = pytest.mark.slow


_NOTE = (
    "ipu_runtime: ipu.auto_select_ipus: no device has 3 IPUs; "
    "devices have a power of two: 2 or 4"
)


@pytest.mark.parametrize(("count", "notes"), [(3, [_NOTE]), (512, [])])
def test_a_number_of_ipus_that_no_system_offers(
    count: int, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    monkeypatch.delenv("TF_POPLAR_FLAGS", raising=False)
    config = IPUConfig()
    config.auto_select_ipus = count
    before = current_state()
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{count}") as raised:
        config.configure_ipu_system()
    assert current_state() is before
    assert getattr(raised.value, "__notes__", []) == notes
