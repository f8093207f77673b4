"""What estimators refuse: numbers of steps, and two model directories at once."""

from __future__ import annotations

import logging
import tempfile

from ipu_runtime.engine.describe.refusal import raise_for
from ipu_runtime.ipu_run_config import RunConfig
from ipu_runtime.plan.rules.count_rules import check_loops

logger = logging.getLogger("tensorflow")


def check_train_steps(steps: int | None, max_steps: int | None, loop: int) -> None:
    """Raise unless exactly one of both is given, and whole loops of steps."""
    if steps is None and max_steps is None:
        raise ValueError("One of `steps` or `max_steps` must be given for train.")
    if steps is not None and max_steps is not None:
        raise ValueError("Only one of `steps` and `max_steps` may be given.")
    if steps is not None:
        raise_for(check_loops(steps, loop))
    elif max_steps is not None and max_steps <= 0:
        raise ValueError(f"max_steps is {max_steps}; it must be at least 1.")


def choose_model_dir(model_dir: str | None, config: RunConfig) -> str:
    """Return the one directory that was named, or a new temporary one."""
    chosen = str(model_dir) if model_dir is not None else None
    if chosen and config.model_dir and chosen != config.model_dir:
        raise ValueError(
            f"`model_dir` is {chosen}, but the run configuration says "
            f"{config.model_dir}; give one of them."
        )
    chosen = chosen or config.model_dir
    if chosen is None:
        chosen = tempfile.mkdtemp()
        logger.warning("Using temporary folder as model directory: %s", chosen)
    return chosen
