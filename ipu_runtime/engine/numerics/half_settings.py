"""What the configuration says about float16 results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

_FLOATS = "floating_point_behaviour."


@dataclass(frozen=True, slots=True)
class HalfSettings:
    """How float16 results are made."""

    stochastic: bool = False
    """Whether results are rounded at random."""
    stochastic_updates: bool = False
    """Whether updated weights and optimizer state are."""
    saturates: bool = True
    """Whether overflow gives the largest number, and not NaN."""
    traps_overflow: bool = False
    half_matmuls: bool = False
    """Whether matrix products are summed in float16."""
    half_convolutions: bool = False
    identical_replicas: bool = False
    """Whether all replicas draw the same numbers."""

    @property
    def asked(self) -> bool:
        """Whether anything is asked for that the host does not do by itself."""
        return replace(self, identical_replicas=False) != HalfSettings()


def half_settings(
    config: Mapping[str, Any], identical_replicas: bool = False
) -> HalfSettings:
    """Return what the fields of a configuration, given where not default, ask for."""
    everything = bool(config.get(_FLOATS + "set_all"))
    rounding = "ON" if everything else config.get(_FLOATS + "esr", "OFF")
    return HalfSettings(
        stochastic=rounding == "ON",
        stochastic_updates=rounding != "OFF",
        saturates=not (everything or config.get(_FLOATS + "nanoo")),
        traps_overflow=everything or bool(config.get(_FLOATS + "oflo")),
        half_matmuls=_half_partials(config, "matmuls"),
        half_convolutions=_half_partials(config, "convolutions"),
        identical_replicas=identical_replicas,
    )


def _half_partials(config: Mapping[str, Any], group: str) -> bool:
    # The matrix unit of the first IPUs has no float16 sums.
    versions = ("device_connection.version", "ipu_model.version")
    if "ipu1" in [config.get(name) for name in versions]:
        return False
    options = config.get(f"{group}.poplar_options", {})
    return bool(options.get("partialsType") == "half")
