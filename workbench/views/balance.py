"""A balanced experiment: which layers belong into which stage, and why."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_runtime.plan.balance.balance_types import BalanceResult, Candidate
from ipu_runtime.plan.quantities import byte_size, change, microseconds, share
from ipu_runtime.reports.document import (
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
from workbench.planning.balancing import BalancedExperiment


def balance_document(balanced: BalancedExperiment, title: str) -> Document:
    """Return what balancing found, and how to use it."""
    result = balanced.result
    if result.best is None:
        return Document(title, (_nothing_fits(result),))
    names = [
        layer.name for layer in balanced.spec.model.layers if layer.kind != "Input"
    ]
    request = result.request
    subtitle = (
        f"{request.stages} stages, least {request.objective.value}, "
        f"{request.schedule.value}, {request.micro_batches} micro-batches per update "
        "(modelled)"
    )
    use: tuple[Part, ...] = (Note("The experiment has these stages already."),)
    if balanced.changes:
        changes = (Line((Span(f"--set '{text}'"),)) for text in balanced.changes)
        training = (f"It trains otherwise: {text}." for text in balanced.training)
        use = (*changes, *(Note(text, WARN) for text in training))
    sections = (
        Section("Beside other cuts", (_comparison(result, result.best),)),
        Section("Stages", (_stages(balanced, result.best, names),)),
        Section("", tuple(Note(text) for text in _remarks(result, names))),
        Section("To use it" if balanced.changes else "", use),
    )
    return Document(title, sections, subtitle)


def _comparison(result: BalanceResult, best: Candidate) -> Table:
    others = {
        "balanced": best,
        "now": result.now,
        "equal counts": result.uniform,
        "runner-up": result.runner_up,
    }
    rows = tuple(
        Row(
            (
                name,
                microseconds(candidate.step_time_us),
                ""
                if candidate is best
                else change(candidate.step_time_us, best.step_time_us),
                microseconds(candidate.bottleneck_us),
                byte_size(candidate.crossing_bytes),
            )
        )
        for name, candidate in others.items()
        if candidate is not None
    )
    titles = ("pipeline run", "", "slowest stage", "bytes crossing")
    columns = (Column(), *(Column(title, right=True) for title in titles))
    return Table(columns, rows)


def _stages(
    balanced: BalancedExperiment, best: Candidate, names: Sequence[str]
) -> Table:
    slowest = max(best.stage_us) or 1.0
    of_stage = balanced.plan.memory
    rows = []
    for stage, time in enumerate(best.stage_us):
        memory = of_stage[stage] if stage < len(of_stage) else None
        own = [n for n, s in zip(names, best.stage_of_layer, strict=True) if s == stage]
        layers = own[0] if len(own) == 1 else f"{own[0]} to {own[-1]} ({len(own)})"
        cells = (
            str(stage),
            microseconds(time),
            Bar(time / slowest),
            microseconds(balanced.result.time_slack_us[stage]),
            share(memory.memory_fraction) if memory else "",
            byte_size(memory.used_bytes) if memory else "",
            layers,
        )
        rows.append(Row(cells))
    columns = (
        Column("stage", right=True),
        Column("time", right=True),
        Column(bar=(6, 12)),
        Column("slack", right=True),
        Column("memory", right=True),
        Column("sum over tiles", right=True, rank=1),
        Column("layers", least=16, fills=True),
    )
    return Table(columns, tuple(rows))


def _remarks(result: BalanceResult, names: Sequence[str]) -> list[str]:
    search = "no cut is better" if result.exact else "the best cut that was found"
    lines = [f"Search: {search}.", f"Binding: {_binding(result.binding, names)}."]
    move = result.best_move
    if move is not None and result.now is not None:
        before = result.now.value(result.request.objective)
        lines.append(
            f"Best single move now: {names[move.layer]} from stage {move.from_stage} "
            f"to {move.to_stage} ({change(before - move.gain, before)})."
        )
    return lines


def _binding(text: str, names: Sequence[str]) -> str:
    words = text.split()
    if "layer" in words:
        index = words[words.index("layer") + 1].rstrip(",")
        return text.replace(f"layer {index}", f"layer {names[int(index)]}")
    return text


def _nothing_fits(result: BalanceResult) -> Section:
    if result.problem:
        return Section("", (Note(result.problem),))
    text = (
        f"No partition into {result.request.stages} stages fits (modelled): the best "
        f"one lacks {byte_size(result.excess_bytes)} on an IPU."
    )
    rows = [
        (
            fix.change,
            "fits" if fix.fits else f"{byte_size(fix.excess_bytes)} too much",
            microseconds(fix.step_time_us) if fix.step_time_us is not None else "",
        )
        for fix in result.fixes
    ]
    columns = Column("tried"), Column("memory"), Column("pipeline run", right=True)
    table = Table(columns, tuple(map(Row, rows)))
    return Section("", (Note(text), table) if rows else (Note(text),))
