"""A plan as a document: figures, time, memory, stages, timeline, advice, problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ipu_runtime.plan.problem import Problem, Severity
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
from ipu_runtime.reports.document import (
    BAD,
    GOOD,
    MUTED,
    STRONG,
    WARN,
    Bar,
    Column,
    Document,
    Line,
    Note,
    Part,
    Row,
    Section,
    Span,
    Table,
)
from ipu_runtime.reports.memory_sections import memory_section
from ipu_runtime.reports.plan_words import (
    advice_words,
    device_words,
    epoch_time,
    epoch_words,
    host_words,
    reason_words,
    replica_lines,
)

if TYPE_CHECKING:
    from ipu_runtime.plan.advice import Advice
    from ipu_runtime.plan.plan import LayerPlan, Plan

_MOST_LAYERS = 8
_MOST_SHOWN = 16
"""Layers whose stages are worth reading."""


def plan_document(
    plan: Plan, title: str, samples: str = "", advice: Sequence[Advice] = ()
) -> Document:
    """Return everything modelled, with what would help.

    Args:
        samples: What an epoch makes of the data.
        advice: What would help, most helpful first.
    """
    if plan.not_modelled:
        note = Note(f"Not modelled: {plan.not_modelled}.")
        sections = [Section("", (note,)), problems_section(plan.problems)]
        return Document(title, tuple(sections))
    device = f"{device_words(plan)} · {plan.request.model.dtype}"
    sections = [figures_section(plan, samples=samples), step_section(plan)]
    sections += [memory_section(plan.memory)]
    if plan.schedule is not None:
        sections += [stages_section(plan), timeline_section(plan)]
    else:
        sections.append(layers_section(plan.layers))
    sections += [_advice_section(advice), problems_section(plan.problems)]
    return Document(title, tuple(item for item in sections if item.parts), device)


@dataclass(frozen=True, slots=True)
class _Figure:
    """A figure of a plan: how it is read and written, and what is said beside it."""

    title: str
    read: Callable[[Plan], float]
    show: Callable[[Plan], str]
    note: Callable[[Plan], str] = lambda plan: ""
    higher_is_better: bool | None = None
    """None if a difference is neither good nor bad."""


_FIGURES = (
    _Figure(
        "per batch",
        lambda plan: plan.ipu_us_per_batch,
        lambda plan: microseconds(plan.ipu_us_per_batch),
        lambda plan: f"{plural(plan.request.batch_size, 'sample')}, over all replicas",
        higher_is_better=False,
    ),
    _Figure(
        "samples/s",
        lambda plan: plan.samples_per_second,
        lambda plan: count(plan.samples_per_second),
        higher_is_better=True,
    ),
    _Figure(
        "memory",
        lambda plan: plan.memory_fraction,
        lambda plan: share(plan.memory_fraction),
        lambda plan: "fullest tile",
    ),
    _Figure(
        "step",
        lambda plan: plan.ipu_step_us,
        lambda plan: microseconds(plan.ipu_step_us),
        lambda plan: step_words(plan.replicas),
    ),
    _Figure(
        "epoch",
        lambda plan: plan.epoch_us,
        epoch_time,
        lambda plan: (
            f"{plural(plan.steps_per_epoch, 'step')}, "
            f"{plural(plan.executions_per_epoch, 'execution')} of "
            f"{plan.steps_per_epoch // max(plan.executions_per_epoch, 1)}"
        ),
        higher_is_better=False,
    ),
    _Figure(
        "updates",
        lambda plan: plan.updates_per_epoch,
        lambda plan: count(plan.updates_per_epoch),
        lambda plan: f"of {_update_samples(plan):,} samples, in an epoch",
    ),
    _Figure(
        "bubble",
        lambda plan: plan.bubble_fraction,
        lambda plan: share(plan.bubble_fraction),
        lambda plan: "of the schedule's cells",
    ),
    _Figure(
        "each host",
        lambda plan: plan.feed_us,
        lambda plan: microseconds(plan.feed_us),
        host_words,
    ),
    _Figure(
        "compilation",
        lambda plan: plan.compile_s,
        lambda plan: duration(plan.compile_s),
        lambda plan: "before the first step",
    ),
)


def _update_samples(plan: Plan) -> int:
    micro_batches = plan.request.gradient_accumulation * max(plan.replicas, 1)
    return plan.request.batch_size * micro_batches


def _told(figure: _Figure, plan: Plan) -> bool:
    """Whether a figure says something of a plan."""
    if figure.title == "updates":
        return plan.request.training
    if figure.title == "bubble":
        return plan.request.pipeline is not None
    if figure.title == "each host":
        return plan.request.instances > 1 or plan.hosts > 1
    return True


def figures_section(
    plan: Plan, before: Plan | None = None, samples: str = ""
) -> Section:
    """Return the main figures, beside those of another plan if there is one.

    Args:
        before: What is told beside each; the plan of the preset, in the app.
        samples: What an epoch makes of the data.
    """
    if plan.step is None:
        return Section("", ())
    told = [figure for figure in _FIGURES if _told(figure, plan)]
    if before is None or before.step is None:
        columns: tuple[Column, ...] = (
            Column(),
            Column(right=True),
            Column(least=16, wraps=True, fills=True),
        )
        rows = [(item.title, item.show(plan), item.note(plan)) for item in told]
        table = Table(columns, tuple(map(Row, rows)))
    else:
        titles = ("modelled", "now", "preset", "")
        columns = (Column(titles[0]), *(Column(x, right=True) for x in titles[1:]))
        table = Table(columns, tuple(_compared(item, plan, before) for item in told))
    notes = [text for text in (samples, epoch_words(plan)) if text]
    return Section("Modelled figures", (table, *(Note(text) for text in notes)))


def _compared(figure: _Figure, plan: Plan, before: Plan) -> Row:
    now, old = figure.read(plan), figure.read(before)
    # Times of batches of different sizes are of different things.
    other_unit = figure.title == "per batch" and (
        plan.request.batch_size != before.request.batch_size
    )
    told = figure.higher_is_better is not None and not other_unit and now != old
    tone = GOOD if (now > old) is figure.higher_is_better else WARN
    difference = Span(change(now, old) if told else "", tone)
    beside = Span(figure.show(before), MUTED)
    return Row((figure.title, figure.show(plan), beside, difference))


def step_section(plan: Plan) -> Section:
    """Return where a step's time goes."""
    step = plan.step
    if step is None:
        return Section("", ())
    total = step.total_us or 1.0
    rows = [
        Row(
            (
                part.title,
                microseconds(part.us),
                share(part.us / total),
                Bar(part.us / total),
                Span(part.meaning, MUTED),
            )
        )
        for part in step_parts(step)
    ]
    rows.append(Row(("total", microseconds(step.total_us), "100 %", "", ""), STRONG))
    columns = (
        Column("part"),
        Column("time", right=True),
        Column("share", right=True),
        Column(bar=(4, 24)),
        Column(rank=1),
    )
    aside = "modelled"
    if plan.schedule is not None:
        aside += ", compute to sync are means over the IPUs"
    words = Note(f"in a step {step_words(plan.replicas)}", MUTED)
    parts = Table(columns, tuple(rows)), words
    return Section("Where a step's time goes", parts, aside)


def stages_section(plan: Plan) -> Section:
    """Return the stages of a pipeline with their times."""
    recomputes = any(stage.recompute_us for stage in plan.stages)
    slowest = max((stage.busy_us for stage in plan.stages), default=0.0) or 1.0
    rows = []
    for stage in plan.stages:
        cells = (
            str(stage.index),
            str(stage.ipu),
            microseconds(stage.forward_us),
            microseconds(stage.backward_us),
            *((microseconds(stage.recompute_us),) if recomputes else ()),
            Bar(stage.busy_us / slowest),
            str(stage.fifo_depth),
            byte_size(stage.stash_bytes),
            layer_names(stage.layers),
        )
        rows.append(Row(cells))
    columns = (
        Column("stage", right=True),
        Column("IPU", right=True),
        Column("forward", right=True),
        Column("backward", right=True),
        *((Column("recompute", right=True),) if recomputes else ()),
        Column(bar=(4, 8), rank=2),
        Column("stash", right=True),
        Column("size", right=True, rank=1),
        Column("layers", least=12, fills=True),
    )
    balance = f"slowest is {plan.stage_imbalance:.2f} times the mean"
    aside = f"modelled, for one micro-batch; {balance}"
    return Section("Stages", (Table(columns, tuple(rows)),), aside)


def layer_names(layers: Sequence[str]) -> str:
    """Return the layers of a stage by their ends."""
    if len(layers) < 2:
        return "".join(layers)
    return f"{layers[0]} to {layers[-1]} ({len(layers)})"


def layers_section(layers: Sequence[LayerPlan]) -> Section:
    """Return the layers, those first that take longest."""

    def time(layer: LayerPlan) -> float:
        return layer.forward_us + layer.backward_us

    total = sum(map(time, layers)) or 1.0
    rows = [
        Row(
            (
                layer.name,
                layer.kind,
                "x".join(str(extent) for extent in layer.output_shape),
                f"{layer.parameters:,}",
                microseconds(layer.forward_us),
                microseconds(layer.backward_us),
                share(time(layer) / total),
                Bar(time(layer) / total),
            )
        )
        for layer in sorted(layers, key=time, reverse=True)
    ]
    columns = (
        Column("layer", least=12),
        Column("kind", rank=3),
        Column("output", rank=4),
        Column("weights", right=True, rank=5),
        Column("forward", right=True, rank=1),
        Column("backward", right=True, rank=1),
        Column("share", right=True),
        Column(bar=(4, 12), rank=2),
    )
    table = Table(columns, tuple(rows), most=_MOST_LAYERS, noun="layer")
    return Section("Layers", (table,) if rows else (), "modelled, slowest first")


def timeline_section(plan: Plan) -> Section:
    """Return who does what when in one pipeline run."""
    # Late: it loads NumPy, which the first frame of the app does without.
    from ipu_runtime.plan.plan_timeline import plan_timeline
    from ipu_runtime.reports.timeline_part import timeline_part

    timeline = plan_timeline(plan)
    if timeline is None:
        return Section("", ())
    schedule = timeline.schedule
    aside = (
        f"modelled, {schedule.kind.value}, {schedule.micro_batches} micro-batches, "
        f"{len(schedule.slots)} slots, {microseconds(timeline.total_us)}"
    )
    words = (
        f"bubble: {share(plan.bubble_fraction)} of the cells; "
        f"waiting: {share(plan.waiting_fraction)} of a step's time"
    )
    drawn = timeline_part(timeline, plan.replicas, plan.ipus_per_replica)
    mapped = len(timeline.ipus)
    replicas = replica_lines(plan.replicas, plan.ipus_per_replica, mapped)
    notes = (Note(text) for text in (words, *replicas))
    return Section("Timeline of one pipeline run", (drawn, *notes), aside)


def _advice_section(advice: Sequence[Advice]) -> Section:
    parts: list[Part] = []
    for item in advice:
        parts.append(Note(advice_words(item), hanging=2))
        parts.append(Line((Span(f"  {reason_words(item)}", MUTED),)))
        if item.cuts and len(item.cuts) <= _MOST_SHOWN:
            parts.append(Line((Span(f"  --set 'pipeline.stages={list(item.cuts)}'"),)))
    return Section("What would help", tuple(parts), "modelled, each alone")


def problems_section(problems: Sequence[Problem]) -> Section:
    """Return every problem in the words that the commands use."""
    if not problems:
        return Section("Problems", (Note("none", GOOD),))
    return Section(
        "Problems",
        tuple(
            Note(
                f"{item.severity.value}: {item}",
                WARN if item.severity is Severity.WARNING else BAD,
                hanging=2,
                # Names of fields and files stay whole.
                whole_words=True,
            )
            for item in problems
        ),
    )
