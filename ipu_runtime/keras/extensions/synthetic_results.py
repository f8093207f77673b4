"""Results that never leave the device, so that the host sees zeros."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from ipu_runtime.keras.extensions.precompiling import only_compiles
from ipu_runtime.poplar_flags import SyntheticDataCategory, use_synthetic_data_for


def without_outfeed(results: Any, config: Mapping[str, Any]) -> Any:
    """Return zeros in the place of results, if none are moved to the host."""
    synthetic = use_synthetic_data_for(SyntheticDataCategory.Outfeed)
    if not (synthetic or only_compiles(config)):
        return results
    if isinstance(results, keras.callbacks.History):
        for name, values in results.history.items():
            results.history[name] = [0.0] * len(values)
        return results
    return keras.tree.map_structure(_zero, results)


def _zero(value: Any) -> Any:
    return np.zeros_like(value) if isinstance(value, np.ndarray) else 0.0
