"""One training, as a scheduler starts it on each host: with `TF_CONFIG` alone."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import popdist

from tests.runtime.popdist.training_cases import all_results

if __name__ == "__main__":
    file = Path(sys.argv[1]) / f"{popdist.getInstanceIndex()}.npz"
    np.savez(file, **all_results(1, ["single"]))
