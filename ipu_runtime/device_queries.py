"""Questions about the configured devices, and their random seed."""

from __future__ import annotations

from ipu_runtime.device_state import current_state, device_ordinal
from ipu_runtime.emulated_device import set_device_seed


def get_num_of_ipus_in_device(ipu_device: str, device: str = "cpu") -> int:
    """Return the physical IPUs of a TensorFlow device."""
    del device  # There is one host in the emulation.
    return current_state().ipus(ipu_device)


def reset_ipu_seed(
    seed: int,
    device: str = "/device:IPU:0",
    cpu_device: str = "cpu",
    experimental_identical_replicas: bool = False,
) -> None:
    """Seed everything random on the device again: dropout, stochastic rounding."""
    del cpu_device, experimental_identical_replicas
    device_ordinal(device)
    set_device_seed(int(seed))
