"""What would help an experiment, and how it is told on every screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ipu_runtime.plan.advice import Advice, advise
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.quantities import microseconds, share
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.planning.shared_layers import shared_spans
from workbench.planning.staged_spec import changed_values, staged_spec

_API = "execution.api"


def advise_experiment(
    spec: ExperimentSpec, plan: Plan, given_up: Callable[[], bool] = lambda: False
) -> tuple[Advice, ...]:
    """Return what would help an experiment, most helpful first.

    Planning every change takes a while: the app does it in a thread.
    """
    found = advise(
        plan,
        locked=spec.pipeline.locked,
        together=shared_spans(spec) if spec.pipeline.stages else (),
        given_up=given_up,
    )
    api = changed_values(spec, staged_spec(spec, ())).get(_API)
    return tuple(
        replace(item, changes={**item.changes, _API: api})
        if api and item.changes.get("pipeline.stages") == []
        else item
        for item in found
    )


def advice_words(advice: Advice) -> str:
    """Return what to do, and what comes of it."""
    fits = "fits, " * advice.fits
    us, less = microseconds(advice.us_per_batch), share(abs(advice.saved))
    word = "less" if advice.saved >= 0 else "more"
    return f"{advice.what}: {fits}{us} per batch, {less} {word}"


def reason_words(advice: Advice) -> str:
    """Return why, with the part of a step that changes most."""
    after = microseconds(advice.after_us) if advice.after_us else "0"
    return f"{advice.reason}: {advice.part} {microseconds(advice.before_us)} to {after}"
