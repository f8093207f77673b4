"""Changing the stages of a draft, with all that other stages ask for, as one change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ipu_runtime.plan.plan import LayerPlan
from ipu_runtime.plan.quantities import change
from ipu_runtime.plan.rules.weight_updates import update_changes
from workbench.editing.draft import Draft
from workbench.editing.fixes import change_words
from workbench.editing.stage_counts import staged_values
from workbench.editing.stage_moves import Move


@dataclass(frozen=True, slots=True)
class Edited:
    """What a change came to."""

    text: str
    """What was done and what it gains, or why nothing was done."""
    also: str = ""
    """Other fields that were changed with it."""
    done: bool = True


class StageEditor:
    """Works on the draft's own stages, whether they can be planned or not."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft

    @property
    def names(self) -> list[str]:
        """Names of the layers that have a stage."""
        return [layer.name for layer in self.draft.layers]

    @property
    def figures(self) -> Mapping[str, LayerPlan]:
        """Figures of the last plan that could run, by layer."""
        plan = self.draft.plan
        return {layer.name: layer for layer in plan.layers} if plan else {}

    @property
    def weights(self) -> Sequence[float]:
        """Work of every layer; all alike where a layer was never planned."""
        figures, names = self.figures, self.names
        if any(name not in figures for name in names):
            return [1.0] * len(names)
        return [figures[name].forward_us + figures[name].backward_us for name in names]

    def apply(self, move: Move) -> Edited:
        """Make a move; with another number of stages other fields follow."""
        if not move.done:
            return Edited(move.text, done=False)
        stages = move.stages
        values: dict[str, Any] = {
            "pipeline.stages": list(stages) if any(stages) else []
        }
        if max(stages) != max(self.draft.stages):
            values |= staged_values(self.draft.tables, stages)
        return self._set(values, move.text)

    def fix(self, values: Mapping[str, Any]) -> Edited:
        """Set what would let the experiment run."""
        if not values:
            return Edited("no message proposes a value", done=False)
        return self._set(values, "")

    def _set(self, values: Mapping[str, Any], text: str) -> Edited:
        draft = self.draft
        old = draft.plan if draft.valid else None
        also = change_words(draft, values)
        draft.set(values)
        new = draft.plan if draft.valid else None
        if old and new:
            gain = change(old.samples_per_second, new.samples_per_second) or "no"
            text = f"{text}: {gain} time per sample"
            if new.replicas != old.replicas:
                also += f", replicas {old.replicas} to {new.replicas}"
            also = "; ".join((also, *update_changes(old.request, new.request)))
        return Edited(text or also, also.removeprefix(", ").removeprefix("; "))
