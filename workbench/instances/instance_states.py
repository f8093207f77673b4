"""How the instances of a run stand, from what each of them says."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.runs.events import InstancesSeen, InstanceState, Progressed


@dataclass(frozen=True, slots=True)
class _Used:
    """Time of processors after so many steps."""

    cpu_s: float
    steps: int


class InstanceStates:
    """Grows with every line, and tells what is new."""

    def __init__(self, count: int) -> None:
        self._states: list[InstanceState | None] = [None] * count
        self._steps = [0] * count
        self._used: list[_Used | None] = [None] * count
        self._told: tuple[InstanceState, ...] = ()
        self._told_at = 0.0

    def began(self, index: int, host: str, pid: int) -> None:
        """An instance is there."""
        self._states[index] = InstanceState(host, pid)

    def progressed(self, index: int, event: Progressed) -> None:
        """Some steps of an instance are done."""
        self._steps[index] = (event.epoch - 1) * event.steps + event.step
        self._change(
            index,
            step=event.step,
            host_step_ms=event.host_step_ms,
            replicas=event.replicas,
        )

    def used(self, index: int, cpu_s: float) -> None:
        """An instance has worked so long: what is new of it is of its new steps."""
        before, steps = self._used[index], self._steps[index]
        if before is None or not before.steps or not steps:
            self._used[index] = _Used(cpu_s, steps)
        elif steps > before.steps:
            each_s = (cpu_s - before.cpu_s) / (steps - before.steps)
            self._change(index, cpu_step_ms=each_s * 1e3)
            self._used[index] = _Used(cpu_s, steps)

    def news(self, now: float, every_s: float) -> InstancesSeen | None:
        """Return how all stand, if that is new and the last time was long ago."""
        states = tuple(state for state in self._states if state is not None)
        new = len(states) == len(self._states) and states != self._told
        if not new or (self._told and now - self._told_at < every_s):
            return None
        self._told, self._told_at = states, now
        return InstancesSeen(states)

    def _change(self, index: int, **changes: float) -> None:
        state = self._states[index]
        if state is not None:
            self._states[index] = replace(state, **changes)  # type: ignore[arg-type]
