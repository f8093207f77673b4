"""The experiment that a captured program amounts to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu_runtime.engine.watch.interception import Program
from ipu_runtime.plan.model.model_spec import Layer, ModelSpec
from ipu_runtime.plan.placements import placed
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.rules.replica_counts import ipus_per_replica
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.ipu_tables import nested_ipu
from workbench.experiment.losses import LOSSES, Loss, label_values
from workbench.models.source_model import SourceModel, TensorFacts
from workbench.overlays.capture import Capture


def captured_source(program: Program) -> SourceModel:
    """Return the model of a program as experiments keep models of sources."""
    assert program.request is not None
    spec = program.request.model
    by_name = {layer.name: layer for layer in spec.layers}
    return SourceModel(
        spec,
        inputs=tuple(
            TensorFacts(layer.name, layer.output_shape) for layer in spec.input_layers
        ),
        outputs=tuple(
            TensorFacts(name, by_name[name].output_shape) for name in spec.outputs
        ),
        one_block=bool(program.facts.get("one_block")),
    )


def captured_tables(
    capture: Capture, title: str, name: str
) -> tuple[dict[str, Any], list[str]]:
    """Return the experiment of what was captured, and what it does not say rightly."""
    program = capture.program
    assert program is not None
    assert program.request is not None
    request, settings = program.request, capture.settings
    remarks = list(program.remarks)
    batches, steps, accumulation = _counts(request, settings)
    samples = batches * request.batch_size
    execution = {
        "api": program.api,
        "steps_per_execution": steps,
        "gradient_accumulation": accumulation,
        "system": request.system,
    }
    for key in ("accumulation_reduction", "metric_reduction"):
        if settings.get(key) in (FIELD_OF_PATH[f"execution.{key}"].choices or ()):
            execution[key] = settings[key]
        elif key in settings:
            remarks.append(f"execution.{key}: the script has {settings[key]}")
    tables: dict[str, Any] = {
        "experiment": {"name": name, "title": title},
        "data": {
            "dataset": "synthetic",
            "batch_size": request.batch_size,
            "train_samples": samples,
            "test_samples": samples,
        },
        "model": {},
        "train": _train(program, settings, remarks),
        "execution": execution,
    }
    train, ends = tables["train"], _ends(request.model)
    names = train.get("losses") or [train["loss"]] * len(ends)
    forms = [Loss(name).labels or _labels(request) for name in names]
    tables["data"]["labels"] = "sparse" if "sparse" in forms else "categorical"
    known = sum(
        label_values(form, end.output_shape)
        for form, end in zip(forms, ends, strict=True)
    )
    if request.training and request.label_values not in (0, known):
        remarks.append(
            f"data.labels: targets have {request.label_values} values a sample, and "
            f"are planned with {known}"
        )
    pipeline = _pipeline(request, settings)
    if pipeline:
        tables["pipeline"] = pipeline
    tables["ipu"] = nested_ipu(_configuration(capture, request, remarks))
    return tables, remarks


def _counts(request: PlanRequest, settings: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return batches over all replicas, steps of an execution, and accumulation."""
    replicas = max(1, request.ipus // ipus_per_replica(request.pipeline))
    accumulation = int(settings.get("gradient_accumulation") or 1)
    accumulation = max(accumulation, request.gradient_accumulation)
    if not request.training:
        accumulation = 1
    loop = settings.get("iterations", 1)
    loop = (loop if isinstance(loop, int) else 1) * accumulation
    steps = max(request.steps_per_execution, loop)
    return max(request.batches, steps * replicas), steps, accumulation


def _train(
    program: Program, settings: Mapping[str, Any], remarks: list[str]
) -> dict[str, Any]:
    request = program.request
    assert request is not None
    train: dict[str, Any] = {"evaluate": not request.training, "loss": "mse"}
    if not request.training:
        return {**train, "test_only": True}
    optimizer = request.optimizer
    choices = FIELD_OF_PATH["train.optimizer"].choices or ()
    if optimizer not in choices:
        # What an optimizer keeps is what matters to a plan, and most keep as Adam does.
        remarks.append(f"train.optimizer: {optimizer} is planned as adam")
        optimizer = "adam"
    found = program.facts.get("losses", [("", False)])
    losses = [_loss(name, from_logits, remarks) for name, from_logits in found]
    if len(set(losses)) == 1:
        train["loss"] = losses[0]
    elif len(losses) == len(request.model.outputs):
        train["losses"] = losses
    rate = program.facts.get("learning_rate")
    train |= {"optimizer": optimizer, "epochs": settings.get("epochs", 1)}
    if settings.get("steps_per_epoch"):
        train["steps_per_epoch"] = settings["steps_per_epoch"]
    if rate is not None:
        # It was a single-precision number.
        train["learning_rate"] = float(f"{rate:.7g}")
    return train


def _loss(name: str, from_logits: bool, remarks: list[str]) -> str:
    for choice in map(Loss, LOSSES):
        if name in (choice.function, choice.name) and choice.from_logits == from_logits:
            return choice.name
    remarks.append(f"train.loss: {name or 'one of its own'} is planned as mse")
    return "mse"


def _labels(request: PlanRequest) -> str:
    wide = request.label_values == sum(end.output_size for end in _ends(request.model))
    return "categorical" if wide else "sparse"


def _ends(model: ModelSpec) -> list[Layer]:
    by_name = {layer.name: layer for layer in model.layers}
    return [by_name[name] for name in model.outputs]


def _pipeline(request: PlanRequest, settings: Mapping[str, Any]) -> dict[str, Any]:
    pipeline = request.pipeline
    if pipeline is None:
        return {}
    return {
        "stages": list(pipeline.stage_of_layer),
        "schedule": settings.get("schedule", pipeline.schedule.value),
        "recomputation": settings.get("recomputation", "Auto"),
        "device_mapping": list(pipeline.device_mapping),
        **{name: settings.get(name, own) for name, own in placed(pipeline).items()},
    }


def _configuration(
    capture: Capture, request: PlanRequest, remarks: list[str]
) -> dict[str, Any]:
    fields = dict(capture.fields)
    if "select_ipus" in fields:
        remarks.append(
            f"ipu.select_ipus: {fields.pop('select_ipus')} is planned as "
            f"{request.ipus} IPUs of any number"
        )
    selection = fields.get("auto_select_ipus", request.ipus)
    if isinstance(selection, list) and len(selection) == 1:
        selection = selection[0]
    return {**fields, "auto_select_ipus": selection}
