"""What an experiment would do on the device, beside what its preset would do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.content import Content

from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.quantities import (
    byte_size,
    change,
    count,
    duration,
    microseconds,
    plural,
    share,
)
from ipu_runtime.plan.step_parts import step_parts, step_words
from ipu_runtime.reports.document import BAD, GOOD, HEADING, MUTED, WARN
from ipu_runtime.reports.plan_words import epoch_words, instance_words
from workbench.editing.draft import Draft
from workbench.views.cells import bar, fit, wrapped
from workbench.views.content import line, lines

if TYPE_CHECKING:
    from ipu_runtime.plan.plan import IpuMemory, Plan, StepTime
    from workbench.runs.cpu_figures import Measured

_FIGURES: tuple[
    tuple[str, Callable[[Plan], float], Callable[[float], str], bool], ...
] = (
    ("per batch", lambda plan: plan.ipu_us_per_batch, microseconds, True),
    ("samples/s", lambda plan: plan.samples_per_second, count, True),
    ("epoch", lambda plan: plan.epoch_us, microseconds, True),
    ("memory", lambda plan: plan.memory_fraction, share, False),
    ("bubble", lambda plan: plan.bubble_fraction, share, False),
    ("updates", lambda plan: plan.updates_per_epoch, count, False),
    ("compile", lambda plan: plan.compile_s, duration, False),
)


def device_line(draft: Draft, plan: Plan) -> str:
    """Return what the experiment runs on, in a few words."""
    if draft.value("execution.api") == "cpu":
        return "CPU"
    words = [plan.request.system, plural(plan.ipus, "IPU")]
    words += [plural(plan.replicas, "replica"), *instance_words(plan)]
    if plan.schedule is not None:
        words.append(f"{plan.schedule.stages} stages {plan.schedule.kind.value}")
    return " · ".join(words)


def cpu_summary(
    draft: Draft, plan: Plan, measured: Measured | None, width: int
) -> list[Content]:
    """Return what stands where a device's figures would: nothing is modelled."""
    # Loaded with the plan, after the first frame.
    from workbench.experiment.printed_figures import printed_figures
    from workbench.runs.cpu_figures import cpu_rows

    printed = printed_figures(draft.tables, str(draft.preset.path))
    texts = wrapped(f"CPU, not modelled: {plan.not_modelled}", width)
    for name, value, note in cpu_rows(printed, measured):
        head = f"{name:<10}{value:>8}  "
        for row in wrapped(note, width - len(head)):
            texts.append(head + row)
            head = " " * len(head)
    rows = [line(text) for text in texts]
    rows += [line((row, WARN)) for row in wrapped(printed.why_not, width)]
    return [*rows, *(line((row, MUTED)) for row in wrapped(_samples(draft), width))]


def plan_summary(draft: Draft, width: int, measured: Measured | None = None) -> Content:
    """Return the whole panel; figures are muted while a value is wrong."""
    plan = draft.plan
    if plan is not None and plan.not_modelled:
        rows = cpu_summary(draft, plan, measured, width)
        return lines(*rows, *problem_lines(draft, width))
    if plan is None or plan.step is None:
        return lines(*problem_lines(draft, width))
    valid = draft.valid
    rows = [] if valid else [line(("last valid figures", WARN))]
    device = wrapped(device_line(draft, plan), width)
    rows += [line((row, "" if valid else MUTED)) for row in device]
    rows += _figures(plan, draft.preset_plan, valid)
    rows += [line((row, MUTED)) for row in wrapped(_samples(draft), width)]
    if short := epoch_words(plan):
        rows += [line((row, MUTED)) for row in wrapped(short, width)]
    rows.append(line(("where a step's time goes", HEADING)))
    definition = wrapped(f"in a step {step_words(plan.replicas)}", width)
    rows += [line((row, MUTED)) for row in definition]
    rows += time_parts(plan.step, width, muted=not valid)
    rows.append(memory_heading(width))
    rows += memory_bars(plan.memory, width, muted=not valid)
    return lines(*rows, *problem_lines(draft, width))


def plan_line(draft: Draft) -> Content:
    """Return the plan in one line, for windows without room for the panel."""
    plan = draft.plan
    reason = draft.why_not_run
    if reason:
        return line((f" {reason}", BAD))
    if plan is not None and plan.not_modelled:
        return line((" CPU: nothing is modelled; a run measures", MUTED))
    if plan is None or plan.step is None:
        return line("")
    before = draft.preset_plan
    old = before.samples_per_second if before else 0.0
    difference = change(plan.samples_per_second, old)
    return line(
        (" modelled ", MUTED),
        f"{microseconds(plan.ipu_us_per_batch)} per batch",
        f"   {count(plan.samples_per_second)} samples/s",
        (
            f" {difference}" if difference not in ("", "=") else "",
            GOOD if plan.samples_per_second > old else WARN,
        ),
        (f"   memory {share(plan.memory_fraction)}", MUTED),
        (f"   {plural(len(draft.problems), 'warning')}", WARN)
        if draft.problems
        else ("   no problems", GOOD),
    )


def _samples(draft: Draft) -> str:
    if draft.spec is None:
        return ""
    # Loaded with the plan, after the first frame.
    from workbench.data import sample_counts

    return sample_counts.sample_words(draft.spec)


def _figures(plan: Plan, preset: Plan | None, valid: bool) -> list[Content]:
    heading = f"{'modelled':<10}{'now':>10} {'preset':>10}"
    rows = [line((heading, MUTED))]
    batch_size = plan.request.batch_size
    for name, read, show, compare in _FIGURES:
        value = read(plan)
        text = f"{name:<10}{show(value):>10}"
        if preset is None or preset.step is None:
            rows.append(line((text, "" if valid else MUTED)))
            continue
        before = read(preset)
        # Times of batches of different sizes are of different things.
        same = name != "per batch" or batch_size == preset.request.batch_size
        compared = compare and same and value != before
        difference = change(value, before) if compared else ""
        better = (value > before) == (name == "samples/s")
        rows.append(
            line(
                (text, "" if valid else MUTED),
                (f" {show(before):>10}", MUTED),
                (f" {difference:>6}", (GOOD if better else WARN) if valid else MUTED),
            )
        )
    return rows


def time_parts(step: StepTime, width: int, muted: bool = False) -> list[Content]:
    """Return a bar for every part of a step that takes time."""
    space = max(4, width - 9 - 5 - 10)
    rows = []
    for part in step_parts(step):
        fraction = part.us / step.total_us
        rows.append(
            line(
                fit(part.title, 9),
                (bar(fraction, space), MUTED if muted else "$primary"),
                (f"{share(fraction):>5}", MUTED if muted else ""),
                (f"{microseconds(part.us):>10}", MUTED),
            )
        )
    return rows


def memory_heading(width: int) -> Content:
    """Return what the figures of `memory_bars` are."""
    left, right = "memory (fullest tile)", "sum over tiles"
    return line((left, HEADING), (f"{right:>{max(0, width - len(left))}}", MUTED))


def memory_bars(
    memory: tuple[IpuMemory, ...], width: int, muted: bool = False, most: int = 8
) -> list[Content]:
    """Return a bar for every IPU of a replica, the fullest tile deciding if it fits."""
    space = max(4, width - 7 - 5 - 19)
    rows = []
    for ipu in memory[:most]:
        fraction = ipu.memory_fraction
        style = BAD if not ipu.fits else MUTED if muted else "$primary"
        sizes = f"{byte_size(ipu.used_bytes)}/{byte_size(ipu.capacity_bytes)}"
        rows.append(
            line(
                fit(f"IPU {ipu.ipu}", 7),
                (bar(fraction, space), style),
                (f"{share(fraction):>5}", style if not ipu.fits else ""),
                (f"{sizes:>19}", BAD if not ipu.fits else MUTED),
            )
        )
    if len(memory) > most:
        rows.append(line((f"and {plural(len(memory) - most, 'IPU')} more", MUTED)))
    return rows


def problem_lines(draft: Draft, width: int) -> list[Content]:
    """Return every problem in the words that the commands use."""
    problems = draft.problems
    if not problems:
        return [line(("no problems", GOOD))]
    rows = [line((plural(len(problems), "problem"), HEADING))]
    for item in problems:
        style = WARN if item.severity is Severity.WARNING else BAD
        text = f"{item.severity.value}: {item}"
        rows += [line((row, style)) for row in wrapped(text, width)]
    return rows
