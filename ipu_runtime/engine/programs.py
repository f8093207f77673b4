"""The programs of one model, built when needed and kept until something changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ipu_runtime.engine.accumulation import Accumulation
from ipu_runtime.engine.device import Device
from ipu_runtime.engine.executor_choice import looks_outside, suits_xla
from ipu_runtime.engine.feeds import ArrayFeed, Feed
from ipu_runtime.engine.keras_reader import ReadModel
from ipu_runtime.engine.loop_program import PredictLoop, TestLoop, TrainLoop
from ipu_runtime.engine.micro_batch import MicroBatch
from ipu_runtime.engine.pieces import PieceSize
from ipu_runtime.engine.pipeline_inference import PipelineInference
from ipu_runtime.engine.pipeline_loops import PipelineTraining
from ipu_runtime.engine.pipeline_setup import Cut
from ipu_runtime.engine.program import CollectedResults, Program
from ipu_runtime.engine.results import Results
from ipu_runtime.engine.stage_functions import StageFunctions
from ipu_runtime.engine.step_count import StepCount


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


class Programs:
    """Programs of a model as it is compiled now, on a number of replicas."""

    def __init__(
        self, model: Any, read: ReadModel | None, replicas: int, device: Device
    ) -> None:
        self._read = read
        graph = read.graph if read else None
        self.micro_batch = MicroBatch(model, graph, replicas, device)
        self.results = Results(self.micro_batch)
        self._built: dict[tuple[Any, ...], tuple[Program, PieceSize]] = {}

    def get(self, setting: Setting) -> tuple[Program, PieceSize]:
        """Return a program and what is known about its speed."""
        cut, feed = setting.cut, setting.feed
        compiled = (
            cut is None
            and not setting.collect
            and isinstance(feed, ArrayFeed)
            and setting.phase != "predict"
            and suits_xla(self._read, feed.batch_size, setting.count.batches)
        )
        key = (
            setting.phase,
            type(feed),
            feed.batch_size,
            setting.accumulation,
            cut and (cut.stage_of_call, cut.kind, cut.recomputation),
            setting.count.per_execution if cut else 0,
            setting.collect,
            compiled,
        )
        if key not in self._built:
            program = (
                self._loop(setting, compiled)
                if cut is None
                else self._pipeline(setting, cut)
            )
            self._built[key] = program, PieceSize(program.unit)
        return self._built[key]

    def _loop(self, setting: Setting, compiled: bool) -> Program:
        collected = CollectedResults(self.micro_batch) if setting.collect else None
        if setting.phase == "train":
            return TrainLoop(
                self.micro_batch, setting.accumulation, compiled, collected
            )
        if setting.phase == "test":
            return TestLoop(self.micro_batch, compiled, collected)
        return PredictLoop(self.micro_batch)

    def _pipeline(self, setting: Setting, cut: Cut) -> Program:
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
        )
