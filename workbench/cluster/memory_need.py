"""How much of a machine one process of a run needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from workbench.data.dataset_facts import data_facts
from workbench.experiment.resolved_model import resolved
from workbench.experiment.validation import validate

CPUS = 1
_EMPTY = 2**30
"""Python with TensorFlow and a small program."""
_NUMBER = 4
_COPIES_OF_DATA = 3
"""As they are in the file, as the model takes them, and while one becomes the other."""
_COPIES_OF_WEIGHTS = 8
"""Themselves, gradients, two of the optimizer, and a checkpoint of these."""


def memory_need(tables: Mapping[str, Any]) -> int:
    """Return an estimate in bytes for a process that trains an experiment."""
    spec, _ = validate(tables)
    if spec is None:
        return _EMPTY
    model, _ = resolved(spec.model)
    facts = data_facts(spec.data)
    shapes = [item.shape for item in (*facts.inputs, *facts.outputs)]
    if facts.sample_shape is not None:
        shapes = [facts.sample_shape]
    elif not shapes and model is not None:
        shapes = [layer.output_shape for layer in model.layers[:1]]
    samples = (facts.train_samples + facts.test_samples) * sum(map(math.prod, shapes))
    weights = model.parameters if model is not None else 0
    return _EMPTY + _NUMBER * (_COPIES_OF_DATA * samples + _COPIES_OF_WEIGHTS * weights)
