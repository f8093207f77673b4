"""Which settings are tried for an experiment, under the rules of the API."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

from ipu_runtime.plan.placements import PLACEMENTS
from ipu_runtime.plan.schedule.building import overlap_length
from ipu_runtime.plan.schedule.schedule import ScheduleKind
from workbench.data.sample_counts import count as count_samples
from workbench.data.sample_counts import is_made_up
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.optimizing.choice import (
    IO_TILES,
    MATRIX_OPTIONS,
    ONCE_PER_UPDATE,
    PROPORTION,
    RECOMPUTE,
    Choice,
    DeviceChoice,
    own_elsewhere,
)
from workbench.optimizing.cuts import AllowedCuts

SCHEDULES = tuple(kind.value for kind in ScheduleKind if kind.on_ipu)
_ALL_COUNTS_UP_TO = 8
"""So many stages are tried one by one; beyond, powers of two and the own number."""
_LARGER_BATCHES = (1, 2, 4, 8)
_OVERLAPS = (1, 2, 4, 8)
"""Micro-batches of an update, in pipeline overlaps, where the batch is free."""
_IO_TILES = (0, 32, 128)
_MOVED_WEIGHTS = ("replicated_weight_sharding", "offload_weights")
_PROPORTIONS = ("0.1", "0.3", "0.6")
"""The last is the default of the poplin library."""

FIXABLE: Mapping[str, str] = {
    "pipeline.stages": "stages",
    "ipu.auto_select_ipus": "ipus",
    "data.batch_size": "micro-batch",
    "execution.gradient_accumulation": "accumulation",
    "pipeline.schedule": "schedule",
    "ipu.allow_recompute": "recomputation",
    **{f"pipeline.{name}": "what is elsewhere" for name in PLACEMENTS},
    "ipu.io_tiles.num_io_tiles": "I/O tiles",
    **{f"ipu.{name}": "partials and memory proportion" for name in MATRIX_OPTIONS},
}
"""Fields that are searched, with the word for what they decide."""


@dataclass(frozen=True)
class SearchSpace:
    """What may be chosen for one experiment."""

    spec: ExperimentSpec
    ipus: int
    """At most so many."""
    update_samples: int = 0
    """Samples of a weight update; 0 lets it be anything."""
    fixed: frozenset[str] = frozenset()
    """Fields that stay as the experiment has them."""

    def devices(self) -> Iterator[DeviceChoice]:
        """Yield the settings that decide the time of a layer."""
        tiles = self._or_own("ipu.io_tiles.num_io_tiles", self._own_tiles, _IO_TILES)
        half = self.spec.model.dtype == "float16"
        partials: tuple[bool | None, ...] = (None,)
        proportions: tuple[str, ...] = ("",)
        if not self._options_fixed:
            proportions = ("", *self._proportions())
            partials = (False, True) if half else (None,)
        for choice in product(self._micro_batches(), tiles, partials, proportions):
            yield DeviceChoice(*choice)

    def sizes(self) -> Iterator[tuple[int, int]]:
        """Yield numbers of stages and of IPUs."""
        for count in self._stage_counts:
            ipus = 1 << (count - 1).bit_length()
            while ipus <= self.ipus:
                if "ipu.auto_select_ipus" not in self.fixed or ipus == self.ipus:
                    yield count, ipus
                ipus *= 2

    def choices(self, device: DeviceChoice, stages: int, ipus: int) -> Iterator[Choice]:
        """Yield every choice with these settings, those that save memory last."""
        own = self.spec.pipeline
        schedules = self._or_own("pipeline.schedule", own.schedule, SCHEDULES)
        own_recompute = bool(self.spec.ipu.get(RECOMPUTE, False))
        both = () if self.spec.train.test_only else (False, True)
        recompute = sorted(self._or_own("ipu.allow_recompute", own_recompute, both))
        elsewhere = self._elsewhere(Choice(device, ipus, stages, 1).replicas)
        if stages == 1:
            schedules, elsewhere = (own.schedule,), ((),)
        for saving in product(elsewhere, recompute):
            for schedule in schedules:
                for count in self._accumulations(device, stages, ipus, schedule):
                    choice = Choice(device, ipus, stages, count, schedule, *saving)
                    if choice.update_samples <= self._samples:
                        yield choice

    def starts(self) -> Iterator[list[Choice]]:
        """Yield what may be good for every size, large micro-batches first.

        More IPUs are nearly always better where updates have more samples with them.
        """
        # Half partials come last of those that are alike otherwise.
        devices = {
            (device.micro_batch, device.proportion): device
            for device in self.devices()
            if device.proportion in ("", _PROPORTIONS[0])
            and device.io_tiles == self._own_tiles
        }
        for stages, ipus in self.sizes():
            if ipus < self.ipus and not self.update_samples:
                continue
            yield [
                choice
                for device in devices.values()
                for choice in self._longest(device, stages, ipus)
            ]

    def _longest(
        self, device: DeviceChoice, stages: int, ipus: int
    ) -> Iterator[Choice]:
        """Yield choices with most micro-batches: plain ones, and those that save."""
        longest: dict[tuple[bool, tuple[str, ...]], Choice] = {}
        for choice in self.choices(device, stages, ipus):
            if not choice.streams:
                key = choice.recompute, choice.elsewhere
                best = longest.setdefault(key, choice)
                if choice == replace(best, accumulation=choice.accumulation):
                    longest[key] = choice
        yield from longest.values()

    def memory_savers(self, *, streams: bool) -> Iterator[Choice]:
        """Yield for every number of stages, most first, what takes little memory."""
        device = min(
            self.devices(),
            key=lambda d: (d.micro_batch, d.io_tiles, d.proportion or _PROPORTIONS[-1]),
        )
        for stages, ipus in sorted(self.sizes(), key=lambda cut: (-cut[0], cut[1])):
            saving = [
                choice
                for choice in self.choices(device, stages, ipus)
                if streams or not choice.streams
            ]
            yield from saving[-1:]

    def all_choices(self) -> Iterator[Choice]:
        """Yield everything that may be chosen."""
        for device, size in product(self.devices(), self.sizes()):
            yield from self.choices(device, *size)

    @property
    def empty(self) -> bool:
        """Whether no settings agree with what is fixed."""
        return not any(True for _ in self.all_choices())

    def update_sizes(self) -> tuple[int, int]:
        """Return the fewest and the most samples that weight updates may have."""
        if self.update_samples:
            return self.update_samples, self.update_samples
        batches = self._micro_batches()
        ends = [
            device
            for device in self.devices()
            if device.micro_batch in (batches[0], batches[-1])
        ]
        sizes = {
            choice.update_samples
            for device, size in product(ends, self.sizes())
            for choice in self.choices(device, *size)
        }
        return min(sizes), max(sizes)

    @property
    def can_move_weights(self) -> bool:
        """Whether stages may fetch their weights while they run."""
        own = any(getattr(self.spec.pipeline, name) for name in _MOVED_WEIGHTS)
        fixed = {f"pipeline.{name}" for name in _MOVED_WEIGHTS} <= self.fixed
        return own or not fixed

    def allows(self, update_samples: int) -> bool:
        """Tell whether weight updates may have so many samples."""
        return self.update_samples in (0, update_samples)

    @cached_property
    def allowed_cuts(self) -> AllowedCuts:
        """Which cuts into stages there may be."""
        return AllowedCuts.of(self.spec, only_own="pipeline.stages" in self.fixed)

    @property
    def _own_tiles(self) -> int:
        return int(self.spec.ipu.get(IO_TILES, 0))

    @property
    def _options_fixed(self) -> bool:
        """Whether those of convolutions or products are; both are chosen together."""
        return any(f"ipu.{name}" in self.fixed for name in MATRIX_OPTIONS)

    @cached_property
    def _samples(self) -> float:
        """Samples of an epoch; made-up ones are as many as it takes."""
        if is_made_up(self.spec):
            return math.inf
        return count_samples(self.spec).train.available

    def _or_own(self, field: str, own: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if field in self.fixed:
            return (own,)
        return tuple(dict.fromkeys((own, *values)))

    def _elsewhere(self, replicas: int) -> tuple[tuple[str, ...], ...]:
        """Return what may be moved out of the tiles, the slowest last.

        The optimizer's state is waited for once per update, everything else by every
        micro-batch: of that, what is used least first.
        """
        own = own_elsewhere(self.spec.pipeline)
        training = not self.spec.train.test_only
        state = ONCE_PER_UPDATE * (training and self.spec.train.optimizer != "sgd")
        kept = (*state, "offload_activations") if training else state
        sums = "offload_gradient_accumulation_buffers"
        weights = _MOVED_WEIGHTS if replicas > 1 else ()
        last = (*kept, *[sums] * training, *weights)
        fixed = {name for name in PLACEMENTS if f"pipeline.{name}" in self.fixed}
        return tuple(
            dict.fromkeys(
                tuple(
                    name
                    for name in PLACEMENTS
                    if name in (own if name in fixed else moved)
                )
                for moved in (own, (), state, kept, last)
            )
        )

    def _micro_batches(self) -> tuple[int, ...]:
        own = self.spec.data.batch_size
        if "data.batch_size" in self.fixed:
            return (own,)
        powers = [1 << bit for bit in range(own.bit_length())]
        sizes = {*powers, *(own * factor for factor in _LARGER_BATCHES)}
        if self.update_samples:
            sizes |= {own // power for power in powers}
            sizes = {size for size in sizes if self.update_samples % size == 0}
        most = self._samples
        return tuple(sorted((size for size in sizes if size <= most), reverse=True))

    def _accumulations(
        self, device: DeviceChoice, stages: int, ipus: int, schedule: str
    ) -> tuple[int, ...]:
        unit = 1
        if stages > 1:
            unit = overlap_length(ScheduleKind(schedule), range(stages), True)
        own = self.spec.execution.gradient_accumulation
        if self.spec.train.test_only:
            return (1,)
        if self.update_samples:
            replicas = Choice(device, ipus, stages, 1).replicas
            count, rest = divmod(self.update_samples, device.micro_batch * replicas)
            counts = {count} if count and not rest else set()
        else:
            counts = {unit * factor for factor in _OVERLAPS} | {own}
        if "execution.gradient_accumulation" in self.fixed:
            counts &= {own}
        least = unit + 2 if device.io_tiles and stages > 1 else 1
        return tuple(sorted(n for n in counts if n % unit == 0 and n >= least))

    @cached_property
    def _stage_counts(self) -> tuple[int, ...]:
        own = max(self.spec.pipeline.stages, default=0) + 1
        if "pipeline.stages" in self.fixed:
            return (own,)
        read, most = self.spec.model.read, min(self.allowed_cuts.layers, self.ipus)
        if read is not None and read.one_block:
            most = 1
        return tuple(
            count
            for count in range(1, 1 + most)
            if count <= _ALL_COUNTS_UP_TO or not count & (count - 1) or count == own
            if self.allowed_cuts.possible(count)
        )

    def _proportions(self) -> tuple[str, ...]:
        own = self._own_proportions
        return tuple(text for text in _PROPORTIONS if {float(text)} != own)

    @cached_property
    def _own_proportions(self) -> set[float]:
        groups = [self.spec.ipu.get(group, {}) for group in MATRIX_OPTIONS]
        texts = [str(options.get(PROPORTION, _PROPORTIONS[-1])) for options in groups]
        # What is no number is a problem of every plan.
        return {float(text) if _is_number(text) else math.inf for text in texts}


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
