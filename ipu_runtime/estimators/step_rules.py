"""What estimators refuse: numbers of steps, and two model directories at once."""

from __future__ import annotations

import logging
import tempfile

from ipu_runtime.ipu_run_config import RunConfig

logger = logging.getLogger("tensorflow")


def check_train_steps(steps: int | None, max_steps: int | None, loop: int) -> None:
    """Raise unless exactly one of both is given, and whole loops of steps."""
    if steps is None and max_steps is None:
        raise ValueError("One of `steps` or `max_steps` must be given for train.")
    if steps is not None and max_steps is not None:
        raise ValueError("Only one of `steps` and `max_steps` may be given.")
    if steps is not None:
        check_multiple(steps, loop)
    elif max_steps is not None and max_steps <= 0:
        raise ValueError(f"max_steps is {max_steps}; it must be at least 1.")


def check_multiple(steps: int, loop: int) -> None:
    """Raise unless steps are whole loops."""
    if steps <= 0:
        raise ValueError(f"steps is {steps}; it must be at least 1.")
    if steps % loop:
        nearest = max(1, round(steps / loop)) * loop
        raise ValueError(
            f"steps ({steps}) must be a multiple of iterations_per_loop "
            f"({loop}); {nearest} is the nearest that is."
        )


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
