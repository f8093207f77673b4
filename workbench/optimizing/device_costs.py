"""What the layers of an experiment cost at least on its devices, planned when asked."""

from __future__ import annotations

from dataclasses import replace

from ipu_runtime.plan.planner import make_plan
from workbench.data.sample_counts import is_made_up
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.optimizing.allowed_cuts import AllowedCuts
from workbench.optimizing.bounds import LayerCosts
from workbench.optimizing.choice import Choice, DeviceChoice, with_choice
from workbench.planning.experiment_plan import plan_request


class DeviceCosts:
    """Plans every device once, on one IPU."""

    def __init__(self, spec: ExperimentSpec, allowed: AllowedCuts) -> None:
        self._spec = spec
        self._allowed = allowed
        self._known: dict[tuple[DeviceChoice, bool, bool], LayerCosts | None] = {}
        """By device, whether gradients are added up, and whether for any device."""

    @property
    def planned(self) -> int:
        """How many plans there were."""
        return len(self._known)

    def of(self, choice: Choice, *, any_device: bool = False) -> LayerCosts | None:
        """Return those of its device, or of any that is no looser; None without plan.

        Args:
            choice: Its device, and whether it accumulates, is all that counts.
            any_device: Whether to leave out what stricter devices may not have.
        """
        training = not self._spec.train.test_only
        key = choice.device, choice.accumulates and training, any_device
        if key not in self._known:
            alone = Choice(choice.device, 1, 1, 1, recompute=training)
            spec = with_choice(self._spec, alone)
            request = plan_request(spec)
            if key[1]:
                request = replace(request, gradient_accumulation=2)
            plan = make_plan(request, with_remedies=False)
            filled = spec.data.preparation != "trim" or is_made_up(spec)
            self._known[key] = LayerCosts.of(
                plan, self._allowed, filled=filled, any_device=any_device
            )
        return self._known[key]
