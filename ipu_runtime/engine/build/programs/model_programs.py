"""The programs of one model, built when needed and kept until something changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ipu_runtime.engine.build.pipeline.keras_pipeline import (
    PipelineInference,
    PipelineTraining,
)
from ipu_runtime.engine.build.pipeline.keras_stages import StageFunctions
from ipu_runtime.engine.build.programs.accumulation import Accumulation
from ipu_runtime.engine.build.programs.executable import (
    BuiltProgram,
    ExecutableProgram,
    PieceSize,
)
from ipu_runtime.engine.build.programs.executor_choice import (
    is_worth_compiling,
    looks_outside,
)
from ipu_runtime.engine.build.programs.loop_program import (
    PredictLoop,
    TestLoop,
    TrainLoop,
)
from ipu_runtime.engine.build.programs.metric_results import (
    CollectedResults,
    Results,
)
from ipu_runtime.engine.build.programs.micro_batch import MicroBatch
from ipu_runtime.engine.describe.keras_reader import (
    ReadModel,
)
from ipu_runtime.engine.describe.model_cache import cache_of
from ipu_runtime.engine.describe.pipeline_cut import Cut
from ipu_runtime.engine.describe.step_count import StepCount
from ipu_runtime.engine.feeds.feed import ArrayFeed, Feed
from ipu_runtime.engine.numerics.half_models import device_half_settings
from ipu_runtime.engine.watch.observer import ProgramPlan
from ipu_runtime.system.device import Device


@dataclass(frozen=True)
class Setting:
    """Everything that decides how a program is built."""

    phase: str
    """`train`, `test` or `predict`."""
    feed: Feed
    count: StepCount
    accumulation: Accumulation
    cut: Cut | None
    collect: bool
    """Whether metric values after every batch are wanted."""


class ProgramSet:
    """Programs of a model as it is compiled now, on a number of replicas."""

    def __init__(
        self, model: Any, read: ReadModel | None, replicas: int, device: Device
    ) -> None:
        self._read = read
        graph = read.graph if read else None
        self.micro_batch = MicroBatch(model, graph, replicas, device)
        self.results = Results(self.micro_batch)
        self._built: dict[tuple[Any, ...], tuple[ExecutableProgram, PieceSize]] = {}

    def get(self, setting: Setting, planned: ProgramPlan) -> BuiltProgram:
        """Return a program; those that differ in counts alone share an executable."""
        cut, feed = setting.cut, setting.feed
        refused = self._refused(setting)
        key = (
            setting.phase,
            type(feed),
            feed.batch_size,
            setting.accumulation,
            cut and (cut.stage_of_call, cut.kind, cut.recomputation),
            setting.count.per_execution if cut else 0,
            setting.collect,
            refused,
        )
        if key not in self._built:
            executable = (
                self._loop(setting, refused)
                if cut is None
                else self._pipeline(setting, cut)
            )
            self._built[key] = executable, PieceSize(executable.unit)
        return BuiltProgram(*self._built[key], planned)

    def _refused(self, setting: Setting) -> str:
        """Return why a loop is not compiled, whatever its operations are."""
        if setting.collect:
            return "results of every batch are collected"
        if self.micro_batch.half is not None:
            return "float16 is emulated"
        if self.micro_batch.instance.count > 1:
            return "several processes exchange gradients"
        if not isinstance(setting.feed, ArrayFeed):
            return "a data set feeds it"
        if not is_worth_compiling(setting.count.batches):
            return "too few batches to compile for"
        return ""

    def _loop(self, setting: Setting, refused: str) -> ExecutableProgram:
        collected = CollectedResults(self.micro_batch) if setting.collect else None
        if setting.phase == "train":
            return TrainLoop(self.micro_batch, setting.accumulation, refused, collected)
        if setting.phase == "test":
            return TestLoop(self.micro_batch, refused, collected)
        return PredictLoop(self.micro_batch)

    def _pipeline(self, setting: Setting, cut: Cut) -> ExecutableProgram:
        assert self._read is not None
        collected = CollectedResults(self.micro_batch) if setting.collect else None
        functions = StageFunctions(
            self.micro_batch, self._read.graph, cut, setting.phase
        )
        if setting.phase != "train":
            return PipelineInference(
                functions,
                cut.schedule(cut.overlap(training=False), training=False),
                setting.count.replicas,
                collected,
            )
        count = setting.accumulation.micro_batches
        return PipelineTraining(
            functions,
            cut.schedule(count, training=True),
            setting.accumulation,
            looks_outside(self._read, setting.feed.batch_size, count),
            collected,
            cut.accumulates_captured,
        )


def programs_of(
    model: Any, read: ReadModel | None, replicas: int, device: Device, phase: str
) -> ProgramSet:
    """Return the programs of a model for a device, kept or new."""
    programs = cache_of(model).programs
    key = (
        phase == "predict",
        replicas,
        device.seed,
        device.loss_scale_replicas,
        device.instance,
        device_half_settings(device),
    )
    if key not in programs:
        programs[key] = ProgramSet(model, read, replicas, device)
    return programs[key]
