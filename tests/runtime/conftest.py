"""Every test has a device that nobody has seeded yet, as a process of its own has."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import tensorflow as tf

from ipu_runtime.datasets.packaged import load_packaged
from ipu_runtime.system import emulated_device
from workbench.data import dataset


@pytest.fixture(autouse=True)
def unseeded_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let draws follow from the test's own seeds, whatever tests before it have set."""
    monkeypatch.setattr(emulated_device, "_draws", emulated_device.DeviceDraws())


@pytest.fixture(autouse=True, scope="module")
def graph_optimizer(request: pytest.FixtureRequest) -> None:
    """Run graphs as they are traced, if in a hurry: optimizing them takes a third.

    Rounding may depend on it, so tests that look at every bit always have it. So have
    all processes that tests start, as users do.
    """
    plain = request.config.getoption("quick")
    if request.path.parent.name in ("numerics", "popdist"):
        plain = False
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": plain})


@pytest.fixture(autouse=True, scope="session")
def packaged_data_once() -> Iterator[None]:
    """Unpack MNIST once for all runs; whoever writes into it is told."""

    @cache
    def load_once(name: str) -> dict[str, dataset.Array]:
        arrays = load_packaged(name)
        for array in arrays.values():
            array.flags.writeable = False
        return arrays

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset, "load_packaged", load_once)
        yield
