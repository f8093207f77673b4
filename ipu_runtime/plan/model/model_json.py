"""A model with its costs as plain data, so that it is traced only once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu_runtime.plan.model.model_spec import Layer, LayerSpec, ModelSpec, Weight
from ipu_runtime.plan.model.operations import Operation, OpKind, TracedWork
from ipu_runtime.plan.plain_data import plain

Plain = Mapping[str, Any]


def model_to_json(model: ModelSpec) -> dict[str, Any]:
    """Return a model in JSON's own types."""
    content: dict[str, Any] = plain(model)
    return content


def model_from_json(content: Plain) -> ModelSpec:
    """Return the model that `model_to_json` has written; ValueError if it is none."""
    try:
        layers = tuple(_layer(layer) for layer in content["layers"])
        outputs, weights = tuple(content["outputs"]), content.get("weight_dtype", "")
        return ModelSpec(layers, outputs, content["dtype"], weights)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a stored model: {error!r}") from error


def _layer(content: Plain) -> Layer:
    spec = content["spec"]
    traced = content["traced"]
    # Captures of older versions do not say what is shared.
    weights_of = content.get("weights_of", "")
    return Layer(
        spec=LayerSpec(**{**spec, "inputs": tuple(spec["inputs"])}),
        input_shapes=tuple(tuple(shape) for shape in content["input_shapes"]),
        output_shape=tuple(content["output_shape"]),
        weights=tuple(
            Weight(
                weight["name"],
                tuple(weight["shape"]),
                weight["trainable"],
                weight.get("shared", bool(weights_of)),
            )
            for weight in content["weights"]
        ),
        flops=content["flops"],
        traced=None if traced is None else _work(traced),
        weights_of=weights_of,
    )


def _work(content: Plain) -> TracedWork:
    operations = {
        name: tuple(_operation(operation) for operation in content[name])
        for name in ("forward", "inference", "backward", "weights_backward")
    }
    remarks = tuple(content["remarks"])
    return TracedWork(**{**content, **operations, "remarks": remarks})


def _operation(content: Plain) -> Operation:
    kind, shape = OpKind(content["kind"]), tuple(content["shape"])
    return Operation(**{**content, "kind": kind, "shape": shape})
