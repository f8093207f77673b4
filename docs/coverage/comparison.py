"""How much of the real API the emulator has, found by comparing name by name."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any

from docs.coverage.declared_effects import (
    DEVICE_FIELDS,
    INTERNAL,
    NUMERIC_FIELDS,
    PARTIAL_NOTES,
)
from docs.coverage.missing_parts import differences
from docs.coverage.real_api import (
    PublicName,
    public_modules,
    public_names,
    second_places,
)
from ipu_runtime.installing.install import install
from ipu_runtime.installing.public_names import IPU
from ipu_runtime.plan.config.config_effects import MODELLED_CONFIG
from ipu_runtime.plan.config.config_fields import IPU_CONFIG_FIELDS
from ipu_runtime.plan.config.field import Affects
from ipu_runtime.system.poplar_flags import FLAGS

_MODELS = "models under a strategy"
_AREAS = {
    f"{IPU}.ops.": "ipu.ops",
    f"{IPU}.optimizers.": "ipu.optimizers",
    f"{IPU}.": "ipu",
    "keras.ipu.": "keras.ipu",
    "ipu_tensorflow_addons.": "ipu_tensorflow_addons",
    "": "popdist and libpvti",
}
_OLDER = "older SDKs"
_CURRENT_SDK = "3.4"
_EXTENSIONS = (
    "keras.ipu.extensions.extensions_base.KerasExtensionBase",
    "keras.ipu.extensions.functional_extensions.FunctionalExtension",
)
"""The classes whose methods a model has that is created under a strategy."""


class Standing(Enum):
    """How much of a name works."""

    FULL = "full"
    PARTIAL = "partial"
    STORED = "stored only"
    ABSENT = "not available"


@dataclass(frozen=True, slots=True)
class Covered:
    """One public name."""

    area: str
    name: str
    """As scripts write it, with `ipu` for `tensorflow.python.ipu`."""
    standing: Standing
    note: str = ""
    sdk: str = ""
    """Empty for fields and flags."""
    dotted: str = ""
    """Where the real package defines it; empty for what cannot be imported."""


@dataclass(frozen=True, slots=True)
class CoveredModule:
    """One module of the real packages."""

    name: str
    standing: Standing
    full: int
    """How many of its names are full."""
    names: int


def api_coverage() -> tuple[Covered, ...]:
    """Compare every public name with the emulator; TensorFlow is loaded for it."""
    install()
    names = [_covered(real) for real in public_names() if not internal(real.dotted)]
    names.sort(key=lambda item: item.name)
    return (*names, *_model_methods())


def setting_coverage() -> tuple[Covered, ...]:
    """List the fields of IPUConfig and the flags with what they do."""
    return (*_config(), *_flags())


def module_coverage(covered: Iterable[Covered]) -> list[CoveredModule]:
    """Count the names of every module; it is full only if all of them are."""
    standings = {item.dotted: item.standing for item in covered}
    modules = []
    # The root package has modules among its names, so that it comes last.
    for module in sorted(public_modules(), key=lambda name: (name == IPU, name)):
        names = public_modules()[module]
        of_names = [standings[name] for name in names if name in standings]
        if of_names:
            standing = of_names[0] if len({*of_names}) == 1 else Standing.PARTIAL
            if standing is Standing.FULL and not _is_everywhere(module):
                standing = Standing.PARTIAL
            standings[module] = standing
            full = of_names.count(Standing.FULL)
            covered_module = CoveredModule(
                shortened(module), standing, full, len(of_names)
            )
            modules.append(covered_module)
    return sorted(modules, key=lambda item: item.name)


def _is_everywhere(module: str) -> bool:
    ours = importlib.import_module(module)
    return all(_is_at(ours, place) for place in second_places(module))


def internal(dotted: str) -> str:
    """Return the pattern that makes a name internal to the real package, if any."""
    return next((pattern for pattern in INTERNAL if fnmatchcase(dotted, pattern)), "")


def found(dotted: str) -> Any:
    """Return what a script gets by a dotted name; LookupError if there is nothing."""
    module, _, name = dotted.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError:
        raise LookupError(dotted) from None
    except ModuleNotFoundError as error:
        # A module of ours that fails to import something else is a mistake.
        if not dotted.startswith(error.name or "-"):
            raise
        raise LookupError(dotted) from None


def compared(real: PublicName) -> tuple[Standing, str]:
    """Return how much of a name there is, and in words what is not."""
    try:
        ours = found(real.dotted)
    except LookupError:
        return Standing.ABSENT, ""
    signatures = {
        method: text
        for method, text in real.signatures.items()
        if not internal(f"{real.dotted}.{method}")
    }
    lacking = differences(replace(real, signatures=signatures), ours)
    elsewhere = [place for place in real.places if not _is_at(ours, place)]
    lacking += [f"not at `{shortened(place)}`" for place in elsewhere]
    return Standing.PARTIAL if lacking else Standing.FULL, "; ".join(lacking)


def shortened(dotted: str) -> str:
    """Return a name as scripts write it after `from tensorflow.python import ipu`."""
    return dotted.replace(IPU, "ipu", 1) if dotted.startswith(IPU) else dotted


def _covered(real: PublicName) -> Covered:
    area = next(area for start, area in _AREAS.items() if real.dotted.startswith(start))
    area = area if real.sdk == _CURRENT_SDK else _OLDER
    above = [
        p for p in real.places if real.module.startswith(p.rpartition(".")[0] + ".")
    ]
    name = shortened(min((real.dotted, *above), key=len))
    standing, note = _with_note(name, *compared(real))
    return Covered(area, name, standing, note, real.sdk, real.dotted)


def _model_methods() -> Iterator[Covered]:
    classes = [real for real in public_names() if real.dotted in _EXTENSIONS]
    methods = {
        m: (real, text) for real in classes for m, text in real.signatures.items()
    }
    for method, (real, text) in sorted(methods.items()):
        standing, note = compared(replace(real, signatures={method: text}, places=()))
        if note.startswith("no method"):
            standing, note = Standing.ABSENT, ""
        name, note = f"model.{method}", note.removeprefix(f"{method}: ")
        yield Covered(_MODELS, name, *_with_note(name, standing, note), real.sdk)


def _with_note(name: str, standing: Standing, lacking: str) -> tuple[Standing, str]:
    note = PARTIAL_NOTES.get(name, "")
    if not note or standing is Standing.ABSENT:
        return standing, lacking
    return Standing.PARTIAL, f"{lacking}; {note}" if lacking else note


def _is_at(ours: Any, place: str) -> bool:
    try:
        return found(place) is ours
    except LookupError:
        return False


def _config() -> Iterator[Covered]:
    for field in IPU_CONFIG_FIELDS:
        effect = DEVICE_FIELDS.get(field.path) or MODELLED_CONFIG.get(field.path, "")
        standing = Standing.FULL if effect else Standing.STORED
        if effect and Affects.NUMERICS in field.affects:
            numbers = NUMERIC_FIELDS.get(field.path, "numbers stay the host's")
            standing, effect = Standing.PARTIAL, f"{effect}; {numbers}"
        standing, effect = _with_note(field.path, standing, effect)
        yield Covered("IPUConfig", field.path, standing, effect)


def _flags() -> Iterator[Covered]:
    for name, flag in FLAGS.items():
        standing = Standing.FULL if flag.effect else Standing.STORED
        standing, note = _with_note(f"--{name}", standing, "")
        yield Covered("TF_POPLAR_FLAGS", f"--{name}", standing, note or flag.help)
