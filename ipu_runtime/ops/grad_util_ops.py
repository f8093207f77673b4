"""Gradients on their way through a model: `ipu.ops.grad_util_ops`."""

from __future__ import annotations

from typing import Any

from ipu_runtime.engine.build.programs.gradient_capture import capture


def capture_upstream_gradients(args: Any, tag: str = "") -> Any:
    """Return the tensors; their gradients are captured under the tag.

    They are found in `captured_gradients` of the `GradientCaptureTape` or
    `GradientCaptureContext` around it.
    """
    return capture(args, tag)
