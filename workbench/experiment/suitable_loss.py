"""The losses that suit the outputs of a model of the user's own, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from workbench.data.dataset_facts import DatasetFacts, GivenTensor
from workbench.data.model_tensors import is_whole, meets, paired
from workbench.experiment.losses import Loss
from workbench.experiment.tables import field_value

if TYPE_CHECKING:
    from workbench.models.source_model import SourceModel, TensorFacts


def with_suitable_loss(
    tables: Mapping[str, Any], read: SourceModel, facts: DatasetFacts | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the experiment with losses for its outputs, if it has none, and why.

    Args:
        tables: The experiment.
        read: Its model.
        facts: What is known of its data; None if they are made up.
    """
    given = (field_value(tables, name) for name in ("train.loss", "train.losses"))
    if any(value is not None for value in given):
        return dict(tables), ()
    labels: tuple[GivenTensor, ...] = ()
    if facts is not None:
        labels = facts.outputs or (_labels_of_file(facts),)
    known: dict[str, GivenTensor] = {}
    if len(labels) == len(read.outputs):
        known = {end.name: tensor for tensor, end in paired(labels, read.outputs)}
    one_hot = field_value(tables, "data.labels") == "categorical"
    chosen = {
        end.name: _suitable(end, known.get(end.name), _vocabularies(read), one_hot)
        for end in read.outputs
    }
    losses = [loss for loss, _ in chosen.values()]
    sparse = any(Loss(name).labels == "sparse" for name in losses)
    data = {"labels": "sparse" if sparse else "categorical", **tables.get("data", {})}
    own = {"losses": losses} if len(set(losses)) > 1 else {"loss": losses[0]}
    changed = {**tables, "data": data, "train": {**tables.get("train", {}), **own}}
    remarks = (f"{name}: {loss}, {why}" for name, (loss, why) in chosen.items())
    return changed, tuple(remarks)


def _labels_of_file(facts: DatasetFacts) -> GivenTensor:
    """Return what is known of the labels of data that have one array of them."""
    if facts.label_shape is not None:
        return GivenTensor("", facts.label_shape, "float32")
    classes = facts.classes
    numbers = facts.labels or ((0, classes - 1) if classes else None)
    return GivenTensor("", facts.class_shape or (), "int32", numbers)


def _vocabularies(read: SourceModel) -> set[int]:
    """Return the sizes of the tables that inputs are looked up in."""
    layers = read.spec.layers if read.spec else ()
    embeddings = (layer.spec for layer in layers if layer.kind == "Embedding")
    return {int(spec.settings.get("input_dim", 0)) for spec in embeddings}


def _suitable(
    end: TensorFacts, given: GivenTensor | None, vocabularies: set[int], one_hot: bool
) -> tuple[str, str]:
    """Return the loss of an output, and what speaks for it."""
    width = end.shape[-1] if end.shape else 1
    whole = given is not None and is_whole(given)
    if end.activation == "softmax":
        if one_hot or (given is not None and not whole):
            return "categorical_crossentropy", "for a softmax and one-hot labels"
        return "sparse_categorical_crossentropy", "for a softmax over classes"
    if end.activation == "sigmoid":
        return "binary_crossentropy", "for a sigmoid"
    classes = "sparse_categorical_crossentropy_from_logits"
    if given is None and width > 1 and "logit" in end.name:
        return classes, "because of its name, and without softmax"
    if given is None and width > 1 and width in vocabularies:
        return classes, "for as many values as there are words, and no softmax"
    if given is not None and whole:
        if width > 1 and not meets(given.shape, end.shape):
            return classes, "for class numbers, and no softmax"
        if max(given.labels or (0, 1)) <= 1:
            name = "binary_crossentropy_from_logits"
            return name, "for labels of 0 and 1, and no sigmoid"
    return "mse", "for numbers, as it has neither softmax nor sigmoid"
