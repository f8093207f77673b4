"""Which module answers to which name of the emulated API."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from ipu_runtime.frameworks.private_names import (
    DISTRIBUTION,
    DISTRIBUTION_CONTEXT,
    KERAS_IN_TENSORFLOW,
    KERAS_OF_TENSORFLOW,
)
from ipu_runtime.installing.public_names import IPU, is_real, missing_attribute

ALIASES = {
    "tensorflow.python.ipu": "ipu_runtime",
    "tensorflow.keras.ipu": "ipu_runtime.keras",
    "keras.ipu": "ipu_runtime.keras",
    f"{KERAS_OF_TENSORFLOW}.ipu": "ipu_runtime.keras",
    "keras.engine": "ipu_runtime.compat.engine",
    "keras.optimizer_v2": "ipu_runtime.compat.optimizer_v2",
    "keras.experimental": "ipu_runtime.compat.experimental",
    "tensorflow.keras.experimental": "ipu_runtime.compat.experimental",
    "keras.mixed_precision.experimental": "ipu_runtime.compat.experimental",
    "tensorflow.keras.mixed_precision.experimental": "ipu_runtime.compat.experimental",
    "keras.layers.experimental": "ipu_runtime.compat.layers_experimental",
    "tensorflow.keras.layers.experimental": "ipu_runtime.compat.layers_experimental",
    "ipu_tensorflow_addons": "ipu_runtime.addons",
    "popdist": "ipu_runtime.popdist",
    "libpvti": "ipu_runtime.compat.libpvti",
    "tensorflow.compiler.plugin": "ipu_runtime.compat.plugin",
    DISTRIBUTION_CONTEXT: DISTRIBUTION,
    # Scripts of SDK 1.4; TensorFlow's own Keras has lost these.
    **{
        f"{KERAS_IN_TENSORFLOW}.{name}": f"{KERAS_OF_TENSORFLOW}.{name}"
        for name in ("applications", "datasets", "preprocessing")
    },
}
"""Dotted prefixes under which scripts import the emulator."""

_SHORTENED = ("ops", "ops.experimental", "optimizers")
"""Packages whose modules are also submodules of `ipu` itself."""

_ELSEWHERE = {
    "ipu_runtime.horovod": "ipu_runtime.distributed",
    **{
        f"ipu_runtime.keras.optimizers.{name}": (
            "ipu_runtime.keras.optimizers.named_als_optimizers"
        )
        for name in ("adam", "gradient_descent", "rmsprop")
    },
    "ipu_runtime.compat.engine.base_layer": "keras.layers",
    "ipu_runtime.compat.engine.input_layer": "keras.layers",
    "ipu_runtime.compat.engine.input_spec": "keras.layers",
    "ipu_runtime.compat.engine.keras_tensor": "keras",
    "ipu_runtime.compat.engine.sequential": "keras.models",
    "ipu_runtime.compat.engine.training": "keras.models",
    **{
        f"ipu_runtime.compat.optimizer_v2.{name}": "keras.optimizers"
        for name in (
            "adadelta",
            "adagrad",
            "adam",
            "adamax",
            "ftrl",
            "gradient_descent",
            "nadam",
            "rmsprop",
        )
    },
    "ipu_runtime.compat.layers_experimental.preprocessing": "keras.layers",
    "ipu_runtime.compat.optimizer_v2.learning_rate_schedule": (
        "keras.optimizers.schedules"
    ),
}
"""Modules of the real packages whose names another module of ours has."""

_ROOT = Path(__file__).parent.parent


def module_of(name: str) -> str | None:
    """Return the module behind `ipu.<name>`, or None if there is none."""
    for package in _SHORTENED:
        if _exists(module := f"ipu_runtime.{package}.{name}"):
            return module
    module = f"ipu_runtime.{name}"
    module = _ELSEWHERE.get(module, module)
    return module if is_real(f"{IPU}.{name}") and _exists(module) else None


def target_of(dotted: str) -> str | None:
    """Return the module that an import of `dotted` should give, if it is ours."""
    for prefix, package in ALIASES.items():
        if dotted == prefix:
            return package
        if dotted.startswith(prefix + "."):
            rest = dotted[len(prefix) + 1 :]
            if package != "ipu_runtime":
                module = f"{package}.{rest}"
                return _ELSEWHERE.get(module, module)
            head, _, tail = rest.partition(".")
            found = module_of(head)
            return f"{found}.{tail}" if found and tail else found
    return None


def submodules(package: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that loads its modules when asked for."""

    def load(name: str) -> Any:
        module = f"{package}.{name}"
        if not _exists(module):
            real = f"{IPU}{module.removeprefix('ipu_runtime')}"
            raise missing_attribute(package, name, real)
        return import_module(module)

    return load


def _exists(module: str) -> bool:
    """Tell whether a module of ours has a file, without importing its package."""
    _, *parts = module.split(".")
    path = _ROOT.joinpath(*parts)
    if parts[-1].startswith("_"):
        return False
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()
