"""A balanced experiment as text for people."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_runtime.plan.balance.balance_types import BalanceResult, Candidate
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.quantities import byte_size, change, microseconds, share
from workbench.planning.balancing import BalancedExperiment
from workbench.views.cells import bar, cut
from workbench.views.layout import TextStyle
from workbench.views.text_table import table_lines


def balance_lines(
    balanced: BalancedExperiment, title: str, style: TextStyle
) -> list[str]:
    """Return what balancing found, and how to use it."""
    result = balanced.result
    names = [
        layer.name for layer in balanced.spec.model.layers if layer.kind != "Input"
    ]
    if result.best is None:
        return [title, "", *_nothing_fits(result)]
    request = result.request
    heading = (
        f"{request.stages} stages, least {request.objective.value}, "
        f"{request.schedule.value}, {request.micro_batches} micro-batches per update "
        "(modelled)"
    )
    lines = [title, heading, "", *_comparison(result, result.best), ""]
    lines += _stages(balanced.plan, result, result.best, names, style)
    lines += ["", *_remarks(result, names)]
    if balanced.changes:
        lines += ["", "To use it:"]
        lines += [f"  --set '{text}'" for text in balanced.changes]
        lines += [f"It trains otherwise: {text}." for text in balanced.training]
    else:
        lines += ["", "The experiment has these stages already."]
    return lines


def _comparison(result: BalanceResult, best: Candidate) -> list[str]:
    others = [
        ("balanced", best),
        ("now", result.now),
        ("equal counts", result.uniform),
        ("runner-up", result.runner_up),
    ]
    rows = []
    for name, candidate in others:
        if candidate is None:
            continue
        difference = change(candidate.step_time_us, best.step_time_us)
        rows.append(
            [
                name,
                microseconds(candidate.step_time_us),
                "" if candidate is best else difference,
                microseconds(candidate.bottleneck_us),
                byte_size(candidate.crossing_bytes),
            ]
        )
    headings = ["", "pipeline run", "", "slowest stage", "bytes crossing"]
    return [f"  {line}" for line in table_lines(headings, rows)]


def _stages(
    plan: Plan,
    result: BalanceResult,
    best: Candidate,
    names: Sequence[str],
    style: TextStyle,
) -> list[str]:
    slowest = max(best.stage_us) or 1.0
    rows, layers = [], []
    for stage, time in enumerate(best.stage_us):
        memory = plan.memory[stage] if stage < len(plan.memory) else None
        rows.append(
            [
                str(stage),
                microseconds(time),
                bar(time / slowest, 12, ascii_only=style.ascii_only),
                microseconds(result.time_slack_us[stage]),
                share(memory.memory_fraction) if memory else "",
                byte_size(memory.used_bytes) if memory else "",
            ]
        )
        own = [n for n, s in zip(names, best.stage_of_layer, strict=True) if s == stage]
        text = own[0] if len(own) == 1 else f"{own[0]} to {own[-1]} ({len(own)})"
        layers.append(text)
    headings = ["stage", "time", "", "slack", "memory", "sum over tiles"]
    lines = table_lines(headings, rows, left=(2,))
    room = max(style.width - max(map(len, lines)) - 4, 16)
    return [
        f"  {line}  {cut(text, room, ascii_only=style.ascii_only)}"
        for line, text in zip(lines, ["layers", *layers], strict=True)
    ]


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


def _nothing_fits(result: BalanceResult) -> list[str]:
    if result.problem:
        return [result.problem]
    rows = []
    for fix in result.fixes:
        missing = "fits" if fix.fits else f"{byte_size(fix.excess_bytes)} too much"
        time = microseconds(fix.step_time_us) if fix.step_time_us is not None else ""
        rows.append([fix.change, missing, time])
    lines = [
        f"No partition into {result.request.stages} stages fits (modelled): the best "
        f"one lacks {byte_size(result.excess_bytes)} on an IPU."
    ]
    if rows:
        table = table_lines(["tried", "memory", "pipeline run"], rows, left=(0, 1))
        lines += ["", *(f"  {line}" for line in table)]
    return lines
