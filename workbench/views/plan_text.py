"""A plan as text for people: where time goes, what memory holds, who does what when."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import TextWrapper, wrap

from ipu_runtime.plan.advice import Advice
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.plan_timeline import plan_timeline
from ipu_runtime.plan.problem import Problem
from ipu_runtime.plan.quantities import count, duration, microseconds, share
from ipu_runtime.plan.step_parts import step_parts, step_words
from ipu_runtime.reports.plan_words import epoch_words, host_words, instance_words
from workbench.planning.advising import advice_words, reason_words
from workbench.views.cells import bar
from workbench.views.layout import TextStyle
from workbench.views.plan_tables import layer_lines, memory_lines, stage_lines
from workbench.views.text_table import table_lines
from workbench.views.timeline_text import legend, replica_lines, timeline_lines

_BAR = 24
_MOST_REPLICAS = 4
_MOST_SHOWN = 16
"""Layers whose stages are worth reading."""


def plan_lines(
    plan: Plan,
    title: str,
    style: TextStyle,
    samples: str = "",
    advice: Sequence[Advice] = (),
) -> list[str]:
    """Return the whole plan, with what would help.

    `samples` says what an epoch makes of the data.
    """
    lines = [title, _device(plan, style), ""]
    lines += _headline(plan)
    notes = [text for text in (samples, epoch_words(plan)) if text]
    lines += [f"  {row}" for text in notes for row in wrap(text, style.width - 2)]
    lines += ["", *_time_parts(plan, style)]
    lines += ["", *memory_lines(plan.memory, style)]
    if plan.schedule:
        lines += ["", *stage_lines(plan, style)]
        lines += ["", *_timeline(plan, style)]
    else:
        lines += ["", *layer_lines(plan.layers, style)]
    if advice:
        lines += ["", *_advice_lines(advice)]
    return [*lines, "", *_problems(plan.problems, style)]


def _advice_lines(advice: Sequence[Advice]) -> list[str]:
    lines = ["What would help (modelled, each alone)"]
    for item in advice:
        lines += [f"  {advice_words(item)}", f"    {reason_words(item)}"]
        if item.cuts and len(item.cuts) <= _MOST_SHOWN:
            lines.append(f"    --set 'pipeline.stages={list(item.cuts)}'")
    return lines


def _device(plan: Plan, style: TextStyle) -> str:
    parts = [
        plan.request.system,
        _number(plan.ipus, "IPU"),
        _number(plan.replicas, "replica"),
        *instance_words(plan),
    ]
    if plan.schedule:
        parts += [_number(plan.schedule.stages, "stage"), plan.schedule.kind.value]
    parts.append(plan.request.model.dtype)
    return (" | " if style.ascii_only else " · ").join(parts)


def _headline(plan: Plan) -> list[str]:
    accumulation = plan.request.gradient_accumulation
    batch = plan.request.batch_size * accumulation * max(plan.replicas, 1)
    epoch_us = plan.epoch_us
    epoch = microseconds(epoch_us) if epoch_us < 1e6 else duration(epoch_us / 1e6)
    updates = f", {_number(plan.updates_per_epoch, 'weight update')} of {batch} samples"
    whole = plan.steps_per_epoch // max(plan.executions_per_epoch, 1)
    rows = [
        (
            "per batch",
            microseconds(plan.ipu_us_per_batch),
            f"{_number(plan.request.batch_size, 'sample')}, over all replicas",
        ),
        ("samples/s", count(plan.samples_per_second), ""),
        ("memory", share(plan.memory_fraction), "fullest tile"),
        ("step", microseconds(plan.ipu_step_us), step_words(plan.replicas)),
        (
            "epoch",
            epoch,
            f"{_number(plan.steps_per_epoch, 'step')}, "
            f"{_number(plan.executions_per_epoch, 'execution')} of "
            f"{whole}{updates if plan.request.training else ''}",
        ),
        ("compilation", duration(plan.compile_s), "before the first step"),
    ]
    if plan.request.instances > 1 or plan.hosts > 1:
        rows.append(("each host", microseconds(plan.feed_us), host_words(plan)))
    width = max(len(value) for _, value, _ in rows)
    lines = [
        f"  {name:<12}{value:>{width}}  {note}".rstrip() for name, value, note in rows
    ]
    return ["Modelled figures", *lines]


def _time_parts(plan: Plan, style: TextStyle) -> list[str]:
    step = plan.step
    if step is None:
        return []
    total = step.total_us or 1.0
    rows = []
    for part in step_parts(step):
        fraction = part.us / total
        drawn = bar(fraction, _BAR, ascii_only=style.ascii_only)
        rows.append(
            [part.title, microseconds(part.us), share(fraction), drawn, part.meaning]
        )
    words = step_words(plan.replicas)
    rows.append(["total", microseconds(step.total_us), "100 %", "", words])
    lines = table_lines(["part", "time", "share", "", ""], rows, left=(0, 3, 4))
    heading = "Where a step's time goes (modelled"
    if plan.schedule:
        heading += ", compute to sync are means over the IPUs"
    return [f"{heading})", *(f"  {line}" for line in lines)]


def _timeline(plan: Plan, style: TextStyle) -> list[str]:
    timeline = plan_timeline(plan)
    schedule = plan.schedule
    if timeline is None or schedule is None:
        return []
    heading = (
        f"Timeline of one pipeline run (modelled): {schedule.kind.value}, "
        f"{schedule.micro_batches} micro-batches, {len(schedule.slots)} slots"
    )
    bubble = (
        f"bubble: {share(plan.bubble_fraction)} of the cells; "
        f"waiting: {share(plan.waiting_fraction)} of a step's time"
    )
    lines = timeline_lines(
        schedule,
        style.width - 2,
        ascii_only=style.ascii_only,
        replicas=plan.replicas,
        ipus_per_replica=plan.ipus_per_replica,
    )
    mapped = len(timeline.ipus)
    replicas: list[str] = []
    if plan.replicas > 1 or mapped < plan.ipus_per_replica:
        replicas = replica_lines(plan.replicas, plan.ipus_per_replica, mapped)
        if len(replicas) > _MOST_REPLICAS:
            left_out = len(replicas) - _MOST_REPLICAS
            replicas = [*replicas[: _MOST_REPLICAS - 1], "...", replicas[-1]]
            replicas[-2] = f"... {left_out} more"
    notes = [legend(schedule), bubble, *replicas]
    return [heading, *(f"  {line}" for line in (*lines, *notes))]


def _problems(problems: Sequence[Problem], style: TextStyle) -> list[str]:
    if not problems:
        return ["Problems: none"]
    texts = (f"{item.severity.value}: {item}" for item in problems)
    # Names of fields and files are not cut.
    wrapper = TextWrapper(
        style.width - 4,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    rows = (row for text in texts for row in wrapper.wrap(text))
    return ["Problems", *(f"  {row}" for row in rows)]


def _number(value: int, word: str) -> str:
    return f"{value} {word}" if value == 1 else f"{value} {word}s"
