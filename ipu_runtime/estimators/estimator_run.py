"""A call of an estimator: its loops, in pieces, and what is told of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import tensorflow as tf

from ipu_runtime.engine.build.programs.executable import BuiltProgram, PieceSize
from ipu_runtime.engine.describe.layer_use_reader import read_layer_uses
from ipu_runtime.engine.describe.program_plan import plan_program
from ipu_runtime.engine.describe.program_request import (
    optimizer_among,
    program_request,
    values_per_sample,
)
from ipu_runtime.engine.run.checkpointing import (
    Checkpoints,
    EpochState,
    NoCheckpoints,
    epoch_checkpoints,
)
from ipu_runtime.engine.run.piece_loop import PieceLoop
from ipu_runtime.engine.watch.observer import (
    ProgramPlan,
    ProgressReport,
    begin_call,
    current_observer,
    end_call,
)
from ipu_runtime.estimators.estimator_loop import EstimatorProgram
from ipu_runtime.frameworks.types import Session, TensorSpec
from ipu_runtime.plan.request import PipelineRequest
from ipu_runtime.reports.program_report import ProgramReport, report_program
from ipu_runtime.system.device import Device


@dataclass(frozen=True)
class PlannedLoop:
    """A program that an estimator has built, with its plan and its report."""

    program: EstimatorProgram
    name: str
    began_s: float
    """When building it began."""
    planned: ProgramPlan
    report: ProgramReport


def plan_loop(
    program: EstimatorProgram,
    name: str,
    began_s: float,
    device: Device,
    element_spec: TensorSpec,
    api: str,
) -> PlannedLoop:
    """Plan a program in the current graph; raise if the device has no room for it."""
    read = read_layer_uses(program.layer_uses)
    planned = ProgramPlan(None, None, read.reason)
    if read.spec is not None:
        parts = tf.nest.flatten(element_spec)
        targets = element_spec[1:] if isinstance(element_spec, tuple) else None
        variables = (item.op.name for item in tf.compat.v1.global_variables())
        request = program_request(
            read.spec,
            device,
            batch_size=int(parts[0].shape[0]) if parts[0].shape.rank else 1,
            batches=program.loop_batches,
            steps_per_execution=program.loop_batches // program.replicas,
            label_values=values_per_sample(targets),
            optimizer=optimizer_among(variables) if name == "training" else None,
            accumulation=program.accumulation,
            sums_micro_batches=program.sums_micro_batches,
            pipeline=_pipeline(program, read.stage_of_layer),
            api=api,
        )
        planned = plan_program(name, request, device)
    report = report_program(name, planned.plan, planned.reason)
    return PlannedLoop(program, name, began_s, planned, report)


def _pipeline(
    program: EstimatorProgram, stage_of_layer: tuple[int, ...]
) -> PipelineRequest | None:
    schedule = program.schedule
    if schedule is None or not stage_of_layer:
        return None
    return PipelineRequest(
        stage_of_layer,
        schedule.kind,
        schedule.recomputation,
        schedule.device_mapping,
        **program.placements,
    )


class EstimatorRun:
    """A call of `train`, `evaluate` or `predict`, from its first loop to its last."""

    def __init__(self, loop: PlannedLoop, kind: str, steps: int, model: str) -> None:
        """Tell who watches the script that the call begins.

        Args:
            loop: What it runs.
            kind: `train`, `evaluate` or `predict`.
            steps: Steps of the call; 0 if only the script knows.
            model: Name of the model function.
        """
        self._planned = loop
        self._program = program = loop.program
        self._call = begin_call(kind, model, loop.planned, steps=steps)
        # `prepare` has compiled the program before its first piece.
        sizes = PieceSize(program.loop.unit, compiled=True)
        self._pieces = PieceLoop(
            BuiltProgram(program.loop, sizes, loop.planned),
            "",
            ProgressReport(kind, steps, loop.planned.step_us, self._call),
            program.instance,
            batches_per_step=program.replicas,
        )
        self._pieces.begin_epoch(1 if kind == "train" else 0)
        self._checkpoints: Checkpoints = NoCheckpoints()
        if kind == "train":
            update = max(program.accumulation * program.replicas, program.loop.unit)
            # The state of an estimator is in its session, which saves it by itself.
            state = EpochState((), update, program.loop.unit // program.steps)
            self._checkpoints = epoch_checkpoints(state, sizes)
        self._loops = 0
        self._sums: dict[str, float] = {}

    @property
    def stopped(self) -> bool:
        """Whether somebody outside has asked to stop."""
        return self._pieces.stopped

    @property
    def steps_done(self) -> int:
        """Steps of the call, as the global step counts them."""
        return self._iterations_done * self._program.steps

    @property
    def _iterations_done(self) -> int:
        return self._pieces.batches // self._program.loop.unit

    @property
    def means(self) -> dict[str, float]:
        """Scalars of the loop, averaged over the iterations so far."""
        done = max(self._iterations_done, 1)
        return {name: total / done for name, total in self._sums.items()}

    def prepare(self, session: Session) -> None:
        """Let TensorFlow prepare the program, without running an iteration."""
        self._program.loop.run(session, 0, 0, lambda batches: None)
        observer = current_observer()
        if observer is not None:
            seconds = time.perf_counter() - self._planned.began_s
            compile_s = self._planned.planned.compile_s
            observer.compiled(self._planned.name, seconds, compile_s)

    def loop(self, session: Session) -> dict[str, float]:
        """Run a loop; return the mean of every scalar over the iterations done."""
        self._loops += 1
        before, sums = self._iterations_done, dict[str, float]()
        first = self._pieces.batches
        end = first + self._program.loop_batches
        for piece in self._pieces.pieces(session, first, end, self._checkpoints):
            _add(piece.results, sums)
            _add(piece.results, self._sums)
            self._pieces.tell(self.steps_done, self.means)
        if not self.stopped:
            self._checkpoints.take_if_due(end)
        done = max(self._iterations_done - before, 1)
        return {name: total / done for name, total in sums.items()}

    def end(self, results: Mapping[str, float] | None = None) -> None:
        """Tell that the call returns, with its results or else the means so far."""
        end_call(self._call, self.means if results is None else results)

    def write_report(self) -> None:
        """Add what the call took to the report of its program."""
        self._planned.report.executed(
            executions=self._loops,
            steps=self._pieces.batches // self._program.replicas,
            host_s=self._pieces.seconds,
        )


def _add(values: Mapping[str, float], sums: dict[str, float]) -> None:
    for name, value in values.items():
        sums[name] = sums.get(name, 0.0) + float(value)
