"""What the model says about the run: step time, stages, timeline and memory."""

from __future__ import annotations

from itertools import islice

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.plan_timeline import plan_timeline
from ipu_runtime.plan.planner import walk_memory
from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.quantities import byte_size, count, microseconds, share
from ipu_runtime.plan.schedule.schedule import Phase
from ipu_runtime.plan.schedule.timeline import Timeline
from ipu_runtime.plan.step_parts import step_parts, step_words
from ipu_runtime.reports.bar_chart import (
    Span,
    SpanRow,
    StackedRow,
    legend,
    span_chart,
    stacked_bars,
)
from ipu_runtime.reports.line_chart import PlottedLine, line_chart
from ipu_runtime.reports.markup import Html, figure, joined, section, table, tag
from ipu_runtime.reports.memory_words import (
    alive_rows,
    always_words,
    fullest_walk,
    peak_sentence,
)
from ipu_runtime.reports.plan_words import epoch_words, instance_sentence

_PHASES = (
    (Phase.FORWARD, "forward"),
    (Phase.BACKWARD, "backward"),
    (Phase.RECOMPUTE, "recompute"),
)
_MOST_SPANS = 4000


def plan_parts(plan: Plan) -> list[Html]:
    """Return everything modelled, each part under its heading."""
    parts = [_summary(plan)]
    timeline = plan_timeline(plan)
    if timeline is not None:
        parts.append(_timeline(plan, timeline))
    if plan.memory:
        parts.append(_memory(plan))
    return parts


def _summary(plan: Plan) -> Html:
    parts: list[Html] = []
    if plan.problems:
        lines = [
            tag("li", str(item), class_=None if _mild(item.severity) else "bad")
            for item in plan.problems
        ]
        parts.append(tag("ul", *lines))
    if plan.not_modelled:
        parts.append(tag("p", f"Not modelled: {plan.not_modelled}."))
    if plan.step is not None:
        updates = f"{plan.updates_per_epoch:,} weight updates per epoch; "
        words = (
            f"{_many(plan.replicas, 'replica')} of "
            f"{_many(plan.ipus_per_replica, 'IPU')}, {plan.ipus} reserved; "
            f"{microseconds(plan.ipu_us_per_batch)} per batch, "
            f"{count(plan.samples_per_second)} samples/s; "
            f"memory {share(plan.memory_fraction)} (fullest tile); "
            f"{updates if plan.request.training else ''}"
            f"compiling {plan.compile_s:.0f} s. All modelled."
        )
        parts.append(tag("p", words))
        if short := epoch_words(plan):
            parts.append(tag("p", f"{short}. All modelled."))
        if spread := instance_sentence(plan):
            parts.append(tag("p", f"{spread}. All modelled."))
        times = {part.title: part.us for part in step_parts(plan.step)}
        row = StackedRow("step", times)
        drawing = stacked_bars([row], microseconds, "Modelled time of one step")
        total = microseconds(plan.step.total_us)
        words = f"A step takes {total}, modelled: {step_words(plan.replicas)}."
        parts.append(figure(words, drawing))
    if plan.stages:
        parts.append(_stages(plan))
    return section("Plan (modelled)", *parts)


def _stages(plan: Plan) -> Html:
    rows = [
        (
            stage.index,
            stage.ipu,
            ", ".join(stage.layers),
            microseconds(stage.forward_us),
            microseconds(stage.backward_us),
            microseconds(stage.recompute_us),
            byte_size(stage.stash_bytes),
        )
        for stage in plan.stages
    ]
    head = ("stage", "IPU", "layers", "forward", "backward", "recompute", "stash")
    return table(head, rows, "Stages; times are for one micro-batch")


def _timeline(plan: Plan, timeline: Timeline) -> Html:
    colours = {phase: index for index, (phase, _) in enumerate(_PHASES)}
    names = dict(_PHASES)
    rows = []
    for ipu in timeline.ipus:
        spans = [
            Span(
                item.start_us,
                item.end_us,
                colours.get(item.phase, 3),
                f"{item.phase.value}{item.micro_batch}",
                f"IPU {ipu}, stage {item.stage}: {names.get(item.phase, 'weights')} of "
                f"micro-batch {item.micro_batch}, {microseconds(item.start_us)} to "
                f"{microseconds(item.end_us)}",
            )
            for item in islice(
                timeline.intervals(ipu), _MOST_SPANS // len(timeline.ipus)
            )
        ]
        rows.append(SpanRow(f"IPU {ipu}", tuple(spans)))
    phases = {task.phase for slot in timeline.schedule.slots.once for task in slot}
    drawn = span_chart(rows, timeline.total_us, microseconds, "Pipeline timeline")
    caption = (
        f"One pipeline run of {timeline.schedule.micro_batches} micro-batches, "
        f"{timeline.schedule.kind.value}: {microseconds(timeline.total_us)}; bubble "
        f"{share(plan.bubble_fraction)} of the cells, waiting "
        f"{share(plan.waiting_fraction)} of a step's time. Modelled."
    )
    shown = [name for phase, name in _PHASES if phase in phases]
    return section(
        "Timeline (modelled)", joined([legend(shown), figure(caption, drawn)])
    )


def _memory(plan: Plan) -> Html:
    rows = [
        StackedRow(
            f"IPU {item.ipu}",
            {name: float(size) for name, size in item.by_category.items() if size},
            float(item.capacity_bytes),
        )
        for item in plan.memory
    ]
    drawing = stacked_bars(rows, byte_size, "Modelled memory by IPU", 2.0**20)
    caption = (
        "Sum over the tiles of each IPU by category; the dashed line is its capacity."
    )
    names = list(dict.fromkeys(name for row in rows for name in row.parts))
    body = [
        (
            f"IPU {item.ipu}",
            *(byte_size(item.by_category.get(name, 0)) for name in names),
            byte_size(item.used_bytes),
            share(item.memory_fraction),
            "fits" if item.fits else tag("span", "does not fit", class_="bad"),
        )
        for item in plan.memory
    ]
    head = ("", *names, "sum over tiles", "fullest tile", "")
    parts = [figure(caption, drawing), table(head, body), *_memory_walk(plan)]
    return section("Memory (modelled)", *parts)


def _memory_walk(plan: Plan) -> list[Html]:
    """Return the memory of the fullest IPU over the steps of its program."""
    walk = fullest_walk(walk_memory(plan))
    always = walk.memory.always_live_bytes / 2**20
    where = tuple(f"{step.name} {step.layer}".strip() for step in walk.steps)
    total = tuple((float(at + 1), size / 2**20) for at, size in enumerate(walk.totals))
    level = tuple((x, always) for x, _ in total)
    lines = [
        PlottedLine("in use, MiB", total, 0, filled=True, hints=where),
        PlottedLine("always live, MiB", level, 7, filled=True),
    ]
    drawing = line_chart(lines, "program step", "MiB, sum over tiles", zero=True)
    caption = (
        f"IPU {walk.memory.ipu} over its program. {peak_sentence(walk)}. "
        f"Always live, grey: {always_words(walk)}. Modelled."
    )
    head = ("alive there, besides", "as", "bytes")
    return [figure(caption, drawing), table(head, alive_rows(walk))]


def _mild(severity: Severity) -> bool:
    return severity is Severity.WARNING


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
