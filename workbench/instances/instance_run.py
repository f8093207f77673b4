"""A run whose training is done by several processes: listens to them, and judges."""

from __future__ import annotations

import signal
import time
from math import gcd

from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.tables import spec_to_tables
from workbench.experiment.topology import topology
from workbench.instances.instance_job import InstanceJob
from workbench.instances.instance_lines import Alive, Failed, Here, Note, read_line
from workbench.instances.instance_states import InstanceStates
from workbench.instances.starting import InstanceStarter, Left, RunningInstances
from workbench.runs.events import Compiling, Progressed
from workbench.runs.run_context import InstanceFailure, RunContext

_LOOK_EVERY_S = 0.1
_TOLD_EVERY_S = 1.0
_SILENCE_S = 20.0
"""An instance that says nothing for so long is lost: it says every second it lives."""
_STOPPING_S = 20.0
_CAUSE_S = 3.0
"""An instance may hear of a lost one sooner than we do."""


def train_on_instances(
    spec: ExperimentSpec, context: RunContext, start: InstanceStarter
) -> None:
    """Train and evaluate with as many processes as the experiment says.

    The first instance's events are the run's. One that fails or is lost ends all.
    """
    job = job_of(spec, context)
    text = f"starting {job.instances} instances, each of which loads TensorFlow"
    context.emit(Compiling(text))
    with start(job) as running:
        _Listening(job, context, running).until_done()


def job_of(spec: ExperimentSpec, context: RunContext) -> InstanceJob:
    """Return what the instances of a run are started with."""
    ipus = topology(spec)
    return InstanceJob(
        spec_to_tables(spec),
        spec.execution.instances,
        # What a system is sold with may be more than its instances can be spread over.
        spec.execution.hosts or gcd(spec.execution.instances, context.plan.hosts),
        ipus.replicas,
        ipus.ipus_per_replica,
        context.directory,
        context.first_epoch,
        context.checkpoint.name if context.checkpoint else "",
    )


class _Listening:
    """One run's instances, until the first has done its work."""

    def __init__(
        self, job: InstanceJob, context: RunContext, running: RunningInstances
    ) -> None:
        self._job, self._context, self._running = job, context, running
        self._states = InstanceStates(job.instances)
        self._heard_at = [time.monotonic()] * job.instances
        self._told = ""
        self._stop_by: float | None = None
        self._cut_off: dict[int, str] = {}
        """Instances that have lost another one, and what they say."""
        self._cause_by: float | None = None
        """Until when to wait for the cause of that."""

    def until_done(self) -> None:
        """Pass on what happens; raise if an instance fails or is lost."""
        while True:
            self._pass_wishes_on()
            heard = self._running.heard(_LOOK_EVERY_S)
            if isinstance(heard, Left):
                if heard.code == 0 and heard.instance == 0:
                    self._tell_news(every_s=0.0)
                    return
                self._left(heard)
            elif heard is not None:
                self._heard_at[heard.instance] = time.monotonic()
                self._said(heard.instance, heard.line)
            # Not before all is heard: it may be us who were held up.
            elif self._given_up():
                return

    def _pass_wishes_on(self) -> None:
        """Tell the first instance to wait or to stop; the others wait for it."""
        control = self._context.control
        wish = "pause" if control.paused else "resume" if self._told else ""
        if control.stop.is_set():
            wish = "stop"
            self._stop_by = self._stop_by or time.monotonic() + _STOPPING_S
        if wish != self._told:
            self._running.tell(0, f"{wish}\n")
            self._told = wish

    def _said(self, index: int, line: str) -> None:
        said = read_line(line)
        match said:
            case Here():
                self._states.began(index, said.host, said.pid)
            case Alive():
                self._states.used(index, said.cpu_s)
            case Failed():
                self._failed(index, said)
            case Progressed():
                self._states.progressed(index, said)
        if index == 0 and said is not None and not isinstance(said, Note):
            self._context.emit(said)
        self._tell_news(_TOLD_EVERY_S)

    def _tell_news(self, every_s: float) -> None:
        seen = self._states.news(time.monotonic(), every_s)
        if seen is not None:
            self._context.emit(seen)

    def _failed(self, index: int, failed: Failed) -> None:
        text = f"instance {index} of {self._job.instances}: {failed.message}"
        if not failed.lost:
            raise InstanceFailure(text)
        self._cut_off[index] = text
        self._cause_by = self._cause_by or time.monotonic() + _CAUSE_S

    def _left(self, left: Left) -> None:
        if left.instance in self._cut_off:
            return  # It has said why.
        killed = left.code - 128
        how = f"has ended with exit code {left.code}"
        if killed in list(signal.Signals):
            how = f"was ended by {signal.Signals(killed).name}"
        raise InstanceFailure(self._about(left.instance, how))

    def _given_up(self) -> bool:
        """Tell whether to leave a run that does not stop; raise if it cannot go on."""
        now = time.monotonic()
        if self._stop_by is not None and now > self._stop_by:
            return True
        without_cause = self._cause_by is not None and now > self._cause_by
        # Others may have given up one that says nothing before we do.
        silence_s = _CAUSE_S if without_cause else _SILENCE_S
        for index, at in enumerate(self._heard_at):
            if now - at > silence_s and index not in self._cut_off:
                how = f"has not been heard of for {now - at:.0f} s"
                raise InstanceFailure(self._about(index, how))
        if without_cause:
            raise InstanceFailure(self._cut_off[min(self._cut_off)])
        return False

    def _about(self, index: int, how: str) -> str:
        log = self._job.log(index).relative_to(self._job.directory)
        return (
            f"instance {index} of {self._job.instances} {how}, so all were ended; what "
            f"it wrote is in {log}, and the run can be resumed"
        )
