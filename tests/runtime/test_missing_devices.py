"""Asking for hardware that no system has."""

from __future__ import annotations

import pytest

from ipu_runtime.config import IPUConfig
from ipu_runtime.system.device_state import current_state

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (3, "no device has 3 IPUs; devices have a power of two: 2 or 4"),
        (512, "Pod256 has 256 IPUs, not 512; at most 256, or a larger system"),
    ],
)
def test_a_number_of_ipus_that_no_system_offers(
    count: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    monkeypatch.delenv("TF_POPLAR_FLAGS", raising=False)
    config = IPUConfig()
    config.auto_select_ipus = count
    before = current_state()
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        config.configure_ipu_system()
    assert current_state() is before
    assert raised.value.message == message
