"""Every test has a device that nobody has seeded yet, as a process of its own has."""

from __future__ import annotations

import pytest

from ipu_runtime.system import emulated_device


@pytest.fixture(autouse=True)
def unseeded_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let draws follow from the test's own seeds, whatever tests before it have set."""
    monkeypatch.setattr(emulated_device, "_draws", emulated_device.DeviceDraws())
