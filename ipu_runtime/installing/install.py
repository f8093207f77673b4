"""Make IPU scripts find the emulator under the names that they import."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from ipu_runtime.frameworks.patching import answering
from ipu_runtime.frameworks.private_names import KERAS_OF_TENSORFLOW, TENSORFLOW_ONE
from ipu_runtime.installing.public_modules import target_of
from ipu_runtime.installing.public_names import ABSENT, IPU, is_real
from ipu_runtime.installing.quiet_import import startup_noise_dropped
from ipu_runtime.system.device_state import current_state
from ipu_runtime.system.garbage import frozen_from_collection

_OWN = (f"{IPU}.", "keras.ipu.", "ipu_tensorflow_addons.", "popdist.")
"""What modules start with that nobody but the emulator may have."""


def install() -> None:
    """Register the emulated API; TensorFlow and Keras are loaded only when imported.

    Calling it again does nothing. Modules that are loaded already are completed now.
    """
    if any(isinstance(finder, _EmulatorFinder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _EmulatorFinder())
    for name, complete in _COMPLETIONS.items():
        module = sys.modules.get(name)
        if module is not None:
            complete(module)


class _EmulatorFinder(MetaPathFinder):
    """Answer for our own names, and complete foreign modules right after loading."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        name = target_of(fullname)
        spec = _alias_spec(fullname, name) if name is not None else None
        if spec is not None:
            return spec
        if fullname.startswith(_OWN) and is_real(fullname):
            raise ModuleNotFoundError(
                f"No module named {fullname!r}{ABSENT}", name=fullname
            )
        complete = _COMPLETIONS.get(fullname)
        if complete is None:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _CompletingLoader(spec.loader, complete)
        return spec


def _alias_spec(fullname: str, name: str) -> ModuleSpec | None:
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    if found is None:
        return None
    is_package = found.submodule_search_locations is not None
    return ModuleSpec(fullname, _AliasLoader(name), is_package=is_package)


class _AliasLoader(Loader):
    """Give an existing module a second name, so that both are one object."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module under its own name."""
        module = importlib.import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Undo what the import system wrote into the module for the second name."""
        module.__spec__ = self._spec


class _CompletingLoader(Loader):
    """Load a foreign module as usual, then add what the emulator has for it."""

    def __init__(self, loader: Loader, complete: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._complete = complete

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to the original loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code, then complete it."""
        # Keras comes with it; beside later modules, models would be kept for good too.
        keeping = (
            frozen_from_collection if module.__name__ == "tensorflow" else nullcontext
        )
        with startup_noise_dropped(), keeping():
            self._loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._complete(module)


def _attach(module: ModuleType, targets: Mapping[str, str]) -> None:
    """Let a module have further ones as attributes, imported when asked for."""
    answering(
        module, targets, lambda name: importlib.import_module(targets[name])
    ).install()


def _complete_keras(module: ModuleType) -> None:
    # Both need Keras, which has just been loaded.
    from ipu_runtime.compat.keras_two import accept_old_habits
    from ipu_runtime.datasets.fallback import install_fallbacks

    accept_old_habits()
    install_fallbacks()
    _attach(module, _KERAS_TARGETS)


def _attaching(targets: Mapping[str, str]) -> Callable[[ModuleType], None]:
    return lambda module: _attach(module, targets)


_KERAS_TARGETS = {
    "ipu": "ipu_runtime.keras",
    "experimental": "ipu_runtime.compat.experimental",
    "engine": "ipu_runtime.compat.engine",
    "optimizer_v2": "ipu_runtime.compat.optimizer_v2",
}


def _complete_numpy(module: ModuleType) -> None:
    # The package of the habits is not for programs that import NumPy alone.
    from ipu_runtime.compat.numpy_habits import accept_numpy_habits

    accept_numpy_habits(module)


def _complete_tensorflow(module: ModuleType) -> None:
    _attach(module, {"estimator": "ipu_runtime.estimators.tf_estimator"})
    if module.__name__ == "tensorflow":
        # Both need TensorFlow, which has just been loaded.
        from ipu_runtime.frameworks.device_scopes import enter_ipus_with, list_ipus_too
        from ipu_runtime.frameworks.tensorflow_graphs import keep_as_written

        enter_ipus_with(_ipu_scope)
        list_ipus_too(_physical_ipus, _logical_ipus)
        # As all of TensorFlow: converting the emulator takes longer than tracing it.
        keep_as_written("ipu_runtime")


def _ipu_scope(device: str) -> Any:
    return importlib.import_module("ipu_runtime.scopes").ipu_scope(device)


def _physical_ipus() -> int:
    """Return the IPU devices that a program can configure, or has configured."""
    return len(current_state().ipus_of_device)


def _logical_ipus() -> int:
    """Return the IPU devices that are configured."""
    state = current_state()
    return len(state.ipus_of_device) if state.configured else 0


_COMPLETIONS: dict[str, Callable[[ModuleType], None]] = {
    "numpy": _complete_numpy,
    "tensorflow": _complete_tensorflow,
    **dict.fromkeys(TENSORFLOW_ONE, _complete_tensorflow),
    "keras": _complete_keras,
    **dict.fromkeys(
        (KERAS_OF_TENSORFLOW, "tensorflow.keras"), _attaching(_KERAS_TARGETS)
    ),
    **{
        f"{root}.{room}": _attaching({"experimental": f"ipu_runtime.compat.{target}"})
        for root in ("keras", KERAS_OF_TENSORFLOW)
        for room, target in (
            ("mixed_precision", "experimental"),
            ("layers", "layers_experimental"),
        )
    },
}
