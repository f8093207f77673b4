"""What of the real API the emulator has, read from the code where that is possible."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ipu_runtime.plan.config_effects import MODELLED_CONFIG
from ipu_runtime.plan.config_fields import IPU_CONFIG_FIELDS
from ipu_runtime.plan.field import Affects
from ipu_runtime.poplar_flags import FLAGS
from ipu_runtime.public_modules import (
    ABSENT_MODULES,
    OPS_MODULES,
    ROOT_MODULES,
    module_of,
)


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
    standing: Standing
    note: str = ""


PARTIAL_NOTES = {
    "ipu.ipu_strategy": "every `run` starts all replicas from the first one's "
    "variables; TensorFlow itself keeps its default strategy inside the scope",
    "ipu.distributed": "one process only; averaging over the replicas of one device",
    "ipu.horovod": "older name of ipu.distributed, one process only",
    "ipu.serving": "export_keras only; the asset stands for an executable",
    "ipu.utils": "export_dataset_to_file and export_inputs_to_file are missing",
    "ipu.autoshard": "no effect on results",
    "keras.ipu.layers.CaptureUpstreamGradients": "forward pass only",
    "keras.ipu.layers.CaptureActivationGradients": "forward pass only",
    "keras.ipu.optimizers.ALSOptimizer": "checked settings, float32 numerics",
    "keras.ipu.optimizers.ALSGradientAccumulationOptimizer": "float32 numerics",
    "keras.ipu.optimizers.ALSOptimizerSGD": "float32 numerics",
    "keras.ipu.optimizers.ALSOptimizerAdam": "float32 numerics",
    "keras.ipu.optimizers.ALSOptimizerRMSProp": "float32 numerics",
    "keras.ipu.PipelineModel": "batch serialisation and layer replacement: no effect",
    "keras.ipu.SequentialPipelineModel": "as PipelineModel",
    "--use_synthetic_data": "feeds and results of Keras models; callbacks see values",
    "--synthetic_data_categories": "infeed and outfeed of Keras models",
    "--synthetic_data_initializer": "whole numbers are 0 or 1 when drawn",
    "model.export_for_ipu_serving": "a SavedModel for the host; its asset stands for "
    "an executable",
    "model.set_infeed_queue_options": "stored; the host's feed needs no queue",
    "model.set_outfeed_queue_options": "stored; the host's results need no queue",
}
"""Where less than everything works, and what."""

DEVICE_FIELDS = {
    "auto_select_ipus": "number of IPUs of each device",
    "select_ipus": "devices by number",
    "device_connection.version": "chip of the emulated system",
    "compilation_poplar_options": "debug.allowOutOfMemory only",
    "device_connection.type": "PRE_COMPILE: fit, evaluate and predict return zeros",
    **dict.fromkeys(
        (f"floating_point_behaviour.{name}" for name in ("inv", "div0", "oflo")),
        "losses and metrics are checked after every execution, and predictions",
    ),
    "floating_point_behaviour.set_all": "as inv, div0 and oflo; no stochastic rounding",
}
"""Fields that act outside of the plan."""

ABSENT_NAMES = {
    "ipu_tensorflow_addons.keras.layers": (
        "CTCInferenceLayer",
        "CTCLoss",
        "CTCPredictionsLayer",
        "EffectiveTransformer",
    ),
    "ipu_tensorflow_addons.keras.optimizers": ("LAMBIpuOptimizer",),
}


def api_coverage() -> tuple[Covered, ...]:
    """List public names with their standing; TensorFlow is not loaded for it."""
    return (
        *_modules(),
        *_keras_names(),
        *_methods(),
        *_addons(),
        *_config(),
        *_flags(),
    )


def _modules() -> Iterator[Covered]:
    for name in sorted((*ROOT_MODULES, *OPS_MODULES)):
        target = module_of(name)
        assert target is not None
        exists = importlib.util.find_spec(target) is not None
        yield _covered("modules", f"ipu.{name}", exists)
    for name in ABSENT_MODULES:
        yield Covered("modules", f"ipu.{name}", Standing.ABSENT)


def _keras_names() -> Iterator[Covered]:
    for module in ("ipu_runtime.keras.layers", "ipu_runtime.keras.optimizers"):
        prefix = module.replace("ipu_runtime.keras", "keras.ipu")
        for name in _exported(module):
            yield _covered("keras.ipu", f"{prefix}.{name}")
    keras_ipu = importlib.import_module("ipu_runtime.keras")
    for name in keras_ipu.__all__:
        yield _covered("keras.ipu", f"keras.ipu.{name}")


def _methods() -> Iterator[Covered]:
    for module in ("base", "stage_assignment"):
        tree = ast.parse(_source(f"ipu_runtime.keras.extensions.{module}"))
        for item in ast.walk(tree):
            if isinstance(item, ast.ClassDef):
                for method in item.body:
                    if isinstance(method, ast.FunctionDef) and method.name[0] != "_":
                        yield _covered("extended models", f"model.{method.name}")


def _addons() -> Iterator[Covered]:
    area = "ipu_tensorflow_addons"
    for name in _exported("ipu_runtime.addons.keras.layers"):
        yield _covered(area, f"{area}.keras.layers.{name}")
    for module, names in ABSENT_NAMES.items():
        for name in names:
            yield Covered(area, f"{module}.{name}", Standing.ABSENT)


def _config() -> Iterator[Covered]:
    for field in IPU_CONFIG_FIELDS:
        effect = DEVICE_FIELDS.get(field.path) or MODELLED_CONFIG.get(field.path, "")
        standing = Standing.FULL if effect else Standing.STORED
        if effect and Affects.NUMERICS in field.affects:
            standing, effect = Standing.PARTIAL, f"{effect}; numbers stay the host's"
        yield Covered("IPUConfig", field.path, standing, effect)


def _flags() -> Iterator[Covered]:
    for name, flag in FLAGS.items():
        standing = Standing.FULL if flag.effect else Standing.STORED
        note = PARTIAL_NOTES.get(f"--{name}", "")
        if note:
            standing = Standing.PARTIAL
        yield Covered("TF_POPLAR_FLAGS", f"--{name}", standing, note or flag.help)


def _covered(area: str, name: str, exists: bool = True) -> Covered:
    if not exists:
        return Covered(area, name, Standing.ABSENT)
    note = PARTIAL_NOTES.get(name, "")
    return Covered(area, name, Standing.PARTIAL if note else Standing.FULL, note)


def _exported(module: str) -> list[str]:
    """Return a module's `__all__` without importing it."""
    for item in ast.parse(_source(module)).body:
        if isinstance(item, ast.Assign):
            target = item.targets[0]
            if isinstance(target, ast.Name) and target.id == "__all__":
                return list(ast.literal_eval(item.value))
    raise LookupError(f"{module} has no __all__")


def _source(module: str) -> str:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")
