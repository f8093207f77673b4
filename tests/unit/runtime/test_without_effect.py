"""Arguments without effect are warned about, by name and once."""

from __future__ import annotations

import pytest

from ipu_runtime.system.without_effect import warn_without_effect


def test_a_given_argument_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        warn_without_effect("made_up", state_type=("float16", None), copies=(1, 1))
    assert caplog.messages == [
        "made_up: state_type='float16' has no effect in the emulator"
    ]
