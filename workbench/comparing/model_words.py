"""The model of a run in few words, and its layers one by one."""

from __future__ import annotations

from ipu_runtime.plan.model.model_spec import Layer, ModelSpec
from ipu_runtime.plan.quantities import plural
from workbench.experiment.resolved_model import resolved
from workbench.experiment.validation import understood
from workbench.runs.run_store import StoredRun
from workbench.runs.script_calls import recorded_request


def model_of(run: StoredRun) -> ModelSpec | None:
    """Return the model of a run; a script's is that of its recorded plan."""
    if run.script:
        request = recorded_request(run)
        return request.model if request else None
    return resolved(understood(run.tables).model)[0]


def model_words(model: ModelSpec | None) -> str:
    """Return what a model is: `7 layers, Conv2D…, 34,826 params`."""
    if model is None or not model.stage_layers:
        return "-"
    layers = model.stage_layers
    kind = next((item.kind for item in layers if item.parameters), layers[0].kind)
    params = sum(layer.parameters for layer in layers)
    return f"{plural(len(layers), 'layer')}, {kind}…, {params:,} params"


def layer_words(layer: Layer) -> str:
    """Return a layer with its settings: `conv2d Conv2D filters=32`."""
    settings = (f"{name}={value}" for name, value in layer.spec.settings.items())
    return " ".join((layer.name, layer.kind, *settings))
