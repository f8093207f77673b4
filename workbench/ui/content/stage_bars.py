"""One line per stage: times, what waits, memory, and how well stages are balanced."""

from __future__ import annotations

from textual.content import Content

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.quantities import share
from ipu_runtime.reports.document import BAD, GOOD, MUTED, WARN
from workbench.ui.content.layer_rows import stage_style
from workbench.views.cells import bar
from workbench.views.content import line

_EVEN, _UNEVEN = 1.1, 1.5


def stage_bars(
    plan: Plan, width: int, stages: range, muted: bool = False
) -> list[Content]:
    """Return a line for each of some stages; bars of all share one scale."""
    longest = max((max(s.forward_us, s.backward_us) for s in plan.stages), default=0.0)
    recomputes = any(stage.recompute_us for stage in plan.stages)
    space = min(12, max(1, (width - (78 if recomputes else 67)) // 2))
    memory = {item.ipu: item for item in plan.memory}
    rows = []
    for stage in plan.stages[stages.start : stages.stop]:
        used = memory.get(stage.ipu)
        forward = bar(stage.forward_us / longest if longest else 0.0, space)
        backward = bar(stage.backward_us / longest if longest else 0.0, space)
        full = 0.0 if used is None else used.memory_fraction
        fits = used is None or used.fits
        plain = MUTED if muted else ""
        rows.append(
            line(
                (
                    f" stage {stage.index:<2}",
                    MUTED if muted else stage_style(stage.index),
                ),
                (f" IPU {stage.ipu:<2} ", MUTED),
                ("fwd ", plain),
                (forward, plain or "$phase-forward"),
                (f"{stage.forward_us:>7.1f}  bwd ", plain),
                (backward, plain or "$phase-backward"),
                (f"{stage.backward_us:>7.1f}", plain),
                (f"  rec {stage.recompute_us:>6.1f}" if recomputes else "", plain),
                (f"  stash {stage.fifo_depth:<2}", MUTED),
                (f"  memory {share(full):>5}", plain if fits else BAD),
            )
        )
    return rows


def shown_stages(plan: Plan, most: int, here: int) -> range:
    """Return which stages have a line where not all have: from the cursor's on."""
    count = len(plan.stages)
    first = max(0, min(here, count - most))
    return range(first, min(first + most, count))


def balance_words(plan: Plan, stages: range, muted: bool = False) -> Content:
    """Return how even the stages are, the longest over the mean; some are shown."""
    times = [stage.busy_us for stage in plan.stages]
    if len(times) < 2 or not sum(times):
        return line(
            (" one stage: n cuts the model in two, S into as many as you say", MUTED)
        )
    balance = plan.stage_imbalance
    style = GOOD if balance < _EVEN else WARN if balance < _UNEVEN else BAD
    word = "even" if balance < _EVEN else "uneven"
    longest = times.index(max(times))
    return line(
        (" balance ", MUTED),
        (f"{balance:.2f} {word}", MUTED if muted else style),
        (f"  stage {longest} is the longest", MUTED) if word == "uneven" else "",
        (f"   bubble {share(plan.bubble_fraction)}", MUTED),
        (f"   {len(stages)} of {len(times)} shown", MUTED)
        if len(stages) < len(times)
        else "",
    )


def stale_words(plan: Plan) -> Content:
    """Say of what the grey figures below are."""
    stages = f"{len(plan.stages)} stages" if len(plan.stages) > 1 else "no pipeline"
    kind = f" {plan.schedule.kind.value}" if plan.schedule else ""
    micro = f", {plan.request.gradient_accumulation} micro-batches"
    return line(
        (f" figures of the last plan that could run: {stages}{kind}{micro}", WARN)
    )


def replica_words(plan: Plan) -> str:
    """Return which IPUs belong to which replica."""
    size = max(1, plan.ipus_per_replica)
    if plan.replicas < 2:
        return f"1 replica on IPUs 0-{size - 1}" if size > 1 else "1 replica on IPU 0"
    shown = [
        f"{index}: {index * size}" + (f"-{(index + 1) * size - 1}" if size > 1 else "")
        for index in range(min(plan.replicas, 4))
    ]
    rest = f" ... {plan.replicas - 1}" if plan.replicas > 4 else ""
    return f"{plan.replicas} replicas, IPUs of each  " + "  ".join(shown) + rest
