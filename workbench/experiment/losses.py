"""What the outputs of a model are compared with, and how."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

_LOGITS = "_from_logits"
LABELS_OF_LOSS = {
    "categorical_crossentropy": "categorical",
    "sparse_categorical_crossentropy": "sparse",
    "binary_crossentropy": "binary",
}
LOSSES = (*LABELS_OF_LOSS, *(f"{name}{_LOGITS}" for name in LABELS_OF_LOSS), "mse")
_CLASSES = {
    "categorical_crossentropy": "CategoricalCrossentropy",
    "sparse_categorical_crossentropy": "SparseCategoricalCrossentropy",
    "binary_crossentropy": "BinaryCrossentropy",
}


@dataclass(frozen=True, slots=True)
class Loss:
    """A choice of `train.loss`, taken apart."""

    name: str
    """Of the choice."""

    @property
    def from_logits(self) -> bool:
        """Whether it takes logits, where the others take probabilities."""
        return self.name.endswith(_LOGITS)

    @property
    def function(self) -> str:
        """Name of the function in `keras.losses`."""
        plain = self.name.removesuffix(_LOGITS)
        return "mean_squared_error" if plain == "mse" else plain

    @property
    def class_name(self) -> str:
        """Name of the class in `keras.losses`, for a cross-entropy."""
        return _CLASSES[self.function]

    @property
    def labels(self) -> str:
        """What it compares with: categorical, sparse, binary; empty for numbers."""
        return LABELS_OF_LOSS.get(self.function, "")

    @property
    def threshold(self) -> float:
        """The output from which on a binary one means yes."""
        return 0.0 if self.from_logits else 0.5

    def of(self, *, from_logits: bool) -> Loss:
        """Return the same cross-entropy of logits or of probabilities."""
        return Loss(self.function + _LOGITS * from_logits)

    def for_labels(self, labels: str) -> Loss:
        """Return the cross-entropy that compares the same with other labels."""
        names = {form: name for name, form in LABELS_OF_LOSS.items()}
        return Loss(names[labels] + _LOGITS * self.from_logits)


def label_values(form: str, shape: tuple[int, ...]) -> int:
    """Return how many values the label of one sample has, for an output's shape."""
    return prod(shape[:-1] if form == "sparse" else shape)
