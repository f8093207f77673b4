"""A plan as text for people: where time goes, what memory holds, who does what when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from ipu_runtime.plan.plan import IpuMemory, LayerPlan, Plan, StagePlan
from ipu_runtime.plan.plan_timeline import plan_timeline
from ipu_runtime.plan.problem import Problem
from workbench.core.quantities import byte_size, count, duration, microseconds, share
from workbench.core.text_table import bar, shortened, table_lines
from workbench.core.timeline_text import legend, replica_lines, timeline_lines

_BAR = 24
_MOST_LAYERS = 8
_MOST_REPLICAS = 4
PART_TITLES = {
    "compute_us": ("compute", "arithmetic on the tiles"),
    "exchange_us": ("exchange", "data between tiles"),
    "sync_us": ("overhead", "fixed cost of supersteps"),
    "links_us": ("links", "copies between IPUs, all-reduce"),
    "bubble_us": ("bubble", "IPUs wait for each other"),
    "update_us": ("update", "share of the weight update"),
    "infeed_us": ("infeed", "waiting for data from the host"),
    "launch_us": ("launch", "share of starting an execution"),
}


@dataclass(frozen=True, slots=True)
class TextStyle:
    """How text is laid out."""

    width: int = 100
    ascii_only: bool = False


def plan_lines(plan: Plan, title: str, style: TextStyle) -> list[str]:
    """Return the whole plan."""
    lines = [title, _device(plan, style), ""]
    lines += _headline(plan)
    lines += ["", *_time_parts(plan, style)]
    lines += ["", *_memory(plan.memory, style)]
    if plan.schedule:
        lines += ["", *_stages(plan, style)]
        lines += ["", *_timeline(plan, style)]
    else:
        lines += ["", *_slowest_layers(plan.layers, style)]
    return [*lines, "", *_problems(plan.problems)]


def _device(plan: Plan, style: TextStyle) -> str:
    parts = [
        plan.request.system,
        _number(plan.ipus, "IPU"),
        _number(plan.replicas, "replica"),
    ]
    if plan.schedule:
        parts += [_number(plan.schedule.stages, "stage"), plan.schedule.kind.value]
    parts.append(plan.request.model.dtype)
    return (" | " if style.ascii_only else " · ").join(parts)


def _headline(plan: Plan) -> list[str]:
    accumulation = plan.request.gradient_accumulation
    batch = plan.request.batch_size * accumulation * max(plan.replicas, 1)
    epoch_s = plan.ipu_step_us * plan.steps_per_epoch / 1e6
    rows = [
        ("step", microseconds(plan.ipu_step_us), "one micro-batch on one replica"),
        (
            "per batch",
            microseconds(plan.ipu_us_per_batch),
            "of data, over all replicas",
        ),
        ("throughput", f"{count(plan.samples_per_second)} samples/s", ""),
        (
            "epoch",
            duration(epoch_s),
            f"{_number(plan.steps_per_epoch, 'step')}, "
            f"{_number(plan.executions_per_epoch, 'execution')} of "
            f"{plan.steps_per_execution}, "
            f"{_number(plan.updates_per_epoch, 'weight update')} of {batch} samples",
        ),
        ("compilation", duration(plan.compile_s), "before the first step"),
    ]
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
    for item in fields(step):
        value = getattr(step, item.name)
        if not value:
            continue
        title, note = PART_TITLES[item.name]
        drawn = bar(value / total, _BAR, ascii_only=style.ascii_only).ljust(_BAR)
        rows.append([title, microseconds(value), share(value / total), drawn, note])
    rows.append(["total", microseconds(step.total_us), "100 %", "", ""])
    lines = table_lines(["part", "time", "share", "", ""], rows, left=(0, 3, 4))
    heading = "Where a step's time goes (modelled"
    if plan.schedule:
        heading += ", compute to overhead are means over the IPUs"
    return [f"{heading})", *(f"  {line}" for line in lines)]


def _memory(memory: Sequence[IpuMemory], style: TextStyle) -> list[str]:
    if not memory:
        return []
    categories = sorted(
        memory[0].by_category, key=lambda name: -max(_part(m, name) for m in memory)
    )
    misfits = any(not item.fits for item in memory)
    rows = []
    for item in memory:
        filled = item.fullest_tile_bytes / max(item.tile_capacity_bytes, 1)
        drawn = bar(filled, 10, ascii_only=style.ascii_only).ljust(10)
        verdict = "fits" if item.fits else "does not fit"
        rows.append(
            [
                str(item.ipu),
                byte_size(item.used_bytes),
                byte_size(item.capacity_bytes),
                share(filled),
                drawn,
                *([verdict] if misfits else []),
                *(byte_size(_part(item, name)) for name in categories),
            ]
        )
    fixed = ["IPU", "used", "of", "fullest tile", "", *([""] if misfits else [])]
    rows, note = _without_middle(rows)
    left = (4, 5) if misfits else (4,)
    # The largest parts are shown, as many as the width has room for.
    for shown in range(len(categories), -1, -1):
        columns = len(fixed) + shown
        lines = table_lines(
            [*fixed, *categories[:shown]], [row[:columns] for row in rows], left
        )
        if max(len(line) for line in lines) <= style.width - 2:
            break
    return ["Memory of a replica's IPUs (modelled)", *(f"  {x}" for x in lines), *note]


def _part(memory: IpuMemory, name: str) -> int:
    return memory.by_category.get(name, 0)


def _without_middle(rows: list[list[str]]) -> tuple[list[list[str]], list[str]]:
    """Leave out the middle of a long table."""
    if len(rows) <= 20:
        return rows, []
    return [*rows[:10], *rows[-6:]], [f"  ... {len(rows) - 16} IPUs left out"]


def _stages(plan: Plan, style: TextStyle) -> list[str]:
    recomputes = any(stage.recompute_us for stage in plan.stages)
    slowest = max(_busy(stage) for stage in plan.stages) or 1.0
    rows = []
    for stage in plan.stages:
        row = [
            str(stage.index),
            str(stage.ipu),
            microseconds(stage.forward_us),
            microseconds(stage.backward_us),
            *([microseconds(stage.recompute_us)] if recomputes else []),
            bar(_busy(stage) / slowest, 12, ascii_only=style.ascii_only).ljust(12),
            str(stage.fifo_depth),
            byte_size(stage.stash_bytes),
        ]
        rows.append(row)
    headings = [
        "stage",
        "IPU",
        "forward",
        "backward",
        *(["recompute"] if recomputes else []),
        "",
        "waiting",
        "stash",
    ]
    lines = table_lines(headings, rows, left=(headings.index(""),))
    room = max(style.width - len(lines[0]) - 4, 16)
    names = [_layer_names(stage.layers, room, style) for stage in plan.stages]
    lines = [f"{a}  {b}" for a, b in zip(lines, ["layers", *names], strict=True)]
    mean = sum(_busy(stage) for stage in plan.stages) / len(plan.stages)
    balance = slowest / mean if mean else 1.0
    return [
        f"Stages (modelled, slowest is {balance:.2f} times the mean)",
        *(f"  {line}" for line in lines),
    ]


def _busy(stage: StagePlan) -> float:
    return stage.forward_us + stage.backward_us + stage.recompute_us


def _layer_names(layers: Sequence[str], room: int, style: TextStyle) -> str:
    if len(layers) == 1:
        return shortened(layers[0], room, ascii_only=style.ascii_only)
    text = f"{layers[0]} to {layers[-1]} ({len(layers)})"
    return shortened(text, room, ascii_only=style.ascii_only)


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
        f"idle: {share(timeline.idle_fraction)} of the cells; "
        f"{share(plan.bubble_fraction)} of the IPUs' time is not forward or backward"
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


def _slowest_layers(layers: Sequence[LayerPlan], style: TextStyle) -> list[str]:
    def time(layer: LayerPlan) -> float:
        return layer.forward_us + layer.backward_us

    total = sum(time(layer) for layer in layers) or 1.0
    chosen = sorted(layers, key=time, reverse=True)[:_MOST_LAYERS]
    rows = [
        [
            shortened(layer.name, 28, ascii_only=style.ascii_only),
            layer.kind,
            "x".join(str(extent) for extent in layer.output_shape),
            f"{layer.parameters:,}",
            microseconds(layer.forward_us),
            microseconds(layer.backward_us),
            share(time(layer) / total),
            bar(time(layer) / total, 12, ascii_only=style.ascii_only),
        ]
        for layer in chosen
    ]
    headings = [
        "layer",
        "kind",
        "output",
        "weights",
        "forward",
        "backward",
        "share",
        "",
    ]
    found = f"{len(chosen)} slowest of {len(layers)} layers"
    if len(chosen) == len(layers):
        found = "Layers"
    return [
        f"{found} (modelled)",
        *(f"  {line}" for line in table_lines(headings, rows, left=(0, 1, 7))),
    ]


def _problems(problems: Sequence[Problem]) -> list[str]:
    if not problems:
        return ["Problems: none"]
    lines = [f"  {item.severity.value}: {item}" for item in problems]
    return ["Problems", *lines]


def _number(value: int, word: str) -> str:
    return f"{value} {word}" if value == 1 else f"{value} {word}s"
