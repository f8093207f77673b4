"""A pipeline's timeline as lines of text: IPUs as rows, slots as columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ipu_runtime.plan.schedule.building import Region, main_part, region_of
from ipu_runtime.plan.schedule.schedule import Action, Phase, Schedule

_REGION_TITLES = {
    Region.RAMP_UP: ("ramp up", "up"),
    Region.MAIN: ("main",),
    Region.RAMP_DOWN: ("ramp down", "down"),
}


def timeline_lines(
    schedule: Schedule,
    width: int = 100,
    *,
    ascii_only: bool = False,
    replicas: int = 1,
    ipus_per_replica: int = 0,
) -> list[str]:
    """Return the timeline as lines no wider than `width`.

    What does not fit is left out in the middle, so that both ramps stay visible. With
    several replicas the rows are those of each, and name all their IPUs.
    """
    labels = [
        _row_label(ipu, replicas, ipus_per_replica or schedule.ipus)
        for ipu in _ipus(schedule)
    ]
    margin = max(len(label) for label in labels) + 1
    gap, bar, idle = ("...", "|", "..") if ascii_only else ("···", "│", "··")
    # Only what can be seen is made into cells: a run may have thousands of slots.
    every, most = range(len(schedule.slots)), max(width // 3, 4)
    cut_short = len(every) > 2 * most
    slots = [*every[:most], *every[-most:]] if cut_short else [*every]
    rows = _rows(schedule, slots)
    widths = _widths(rows)
    room = width - margin - len("||U")
    chosen = _both_ends(widths, room, len(gap) + 1)
    main = main_part(schedule)
    shown = [region_of(slot, main) for slot in slots]
    lines = [_region_line(shown, widths, chosen, margin, len(gap))]
    update = "U" if schedule.training else ""
    for label, row in zip(labels, rows, strict=True):
        cells = [
            gap if slot is None else (row[slot] or idle).ljust(widths[slot])
            for slot in chosen
        ]
        lines.append(f"{label.ljust(margin)}{bar}{' '.join(cells)}{bar}{update}")
    return lines


def replica_lines(replicas: int, ipus_per_replica: int, mapped: int) -> list[str]:
    """Say which IPUs belong to which replica, and which of them have no stage."""
    lines = []
    for replica in range(replicas):
        first = replica * ipus_per_replica
        used = first + mapped - 1
        line = f"replica {replica}: IPU {_span(first, used)}"
        if mapped < ipus_per_replica:
            rest = _span(used + 1, first + ipus_per_replica - 1)
            line += f", IPU {rest} reserved without a stage"
        lines.append(line)
    return lines


def legend(schedule: Schedule) -> str:
    """Say what the letters mean, for the phases that occur."""
    found = {action.phase for slot in schedule.slots.once for action in slot}
    meaning = {
        Phase.FORWARD: "F forward",
        Phase.BACKWARD: "B backward",
        Phase.RECOMPUTE: "R recomputation",
        Phase.WEIGHT_GRADIENT: "W weight gradient",
    }
    words = [text for phase, text in meaning.items() if phase in found]
    if schedule.training:
        words.append("U weight update")
    return ", ".join(words) + "; the number is the micro-batch"


def _ipus(schedule: Schedule) -> tuple[int, ...]:
    return tuple(sorted(set(schedule.device_mapping)))


def _rows(schedule: Schedule, slots: Sequence[int]) -> tuple[tuple[str, ...], ...]:
    """Return what every IPU does in each of some slots, `F3` or `F1+R0`."""
    ipus, mapping = _ipus(schedule), schedule.device_mapping
    shared = len(ipus) < schedule.stages
    rows: dict[int, list[str]] = {ipu: [] for ipu in ipus}
    for slot in slots:
        own: dict[int, list[Action]] = {}
        for action in schedule.slots[slot]:
            own.setdefault(mapping[action.stage], []).append(action)
        for ipu, row in rows.items():
            row.append(_cell(own.get(ipu, ()), shared))
    return tuple(tuple(row) for row in rows.values())


def _widths(rows: Sequence[Sequence[str]]) -> tuple[int, ...]:
    columns = zip(*rows, strict=True)
    return tuple(max(2, *map(len, column)) for column in columns)


def _cell(actions: Sequence[Action], shared: bool) -> str:
    texts = []
    for action in actions:
        # With several stages on an IPU the letter alone does not say which one runs.
        stage = str(action.stage) if shared else ""
        texts.append(f"{stage}{action.phase.value}{action.micro_batch}")
    return "+".join(texts)


def _row_label(ipu: int, replicas: int, per_replica: int) -> str:
    if replicas <= 1:
        return f"IPU{ipu}"
    members = [str(ipu + replica * per_replica) for replica in range(replicas)]
    if len(members) > 4:
        members = [*members[:2], "..", members[-1]]
    return f"IPU {','.join(members)}"


def _both_ends(widths: Sequence[int], room: int, gap: int) -> list[int | None]:
    """Return the slots that fit, from both ends; None stands for what is left out."""
    count = len(widths)
    if sum(widths) + count - 1 <= room:
        return list(range(count))
    head: list[int | None] = []
    tail: list[int | None] = []
    left, right, used = 0, count - 1, gap
    while left < right:
        taken = left if len(head) <= len(tail) else right
        used += widths[taken] + 1
        if used > room and head:
            break
        if taken == left:
            head.append(taken)
            left += 1
        else:
            tail.insert(0, taken)
            right -= 1
    return [*head, None, *tail]


def _region_line(
    regions: Sequence[Region],
    widths: Sequence[int],
    chosen: Sequence[int | None],
    margin: int,
    gap: int,
) -> str:
    """Return a line that names the parts of the run above their slots."""
    text = " " * (margin + 1)
    for region, members in groupby(
        chosen, key=lambda slot: None if slot is None else regions[slot]
    ):
        sizes = [gap if slot is None else widths[slot] for slot in members]
        room = sum(sizes) + len(sizes)
        titles = () if region is None else _REGION_TITLES[region]
        title = next((name for name in titles if len(name) < room), "")
        text += title.ljust(room)
    return text.rstrip()


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"
