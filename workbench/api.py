"""The workbench from Python, in a notebook or a script: the commands as functions.

    from workbench import api

    experiment = api.load("mnist-ipu-pipelined", ["data.batch_size=32"])
    api.plan(experiment).samples_per_second
    api.balance(experiment, stages=2).result.stage_of_layer
    api.optimize(experiment, "throughput", ipus=4).best[0].plan
    run = api.run(experiment, watch=print)
    run.series().curve("loss").ys
    api.runs()[0].status

What cannot be done raises `Refused` with a problem and a hint, the same that a command
prints. Planning loads no TensorFlow; `run` does, and `load` for a model of the user's
own that is new. Every function may be called on any thread. Runs are kept below
IPU_WORKBENCH_HOME, where app and commands find them too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ipu_runtime.plan.hardware import find_system, systems
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.problem import Problem, Severity
from workbench.data.sample_counts import count
from workbench.experiment.experiment_loading import LoadedExperiment, load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.preset_store import PresetError
from workbench.experiment.topology import selected_ipus
from workbench.locations import hardware_file
from workbench.planning.experiment_plan import plan_experiment, plan_inference
from workbench.services.refused import Refused

if TYPE_CHECKING:
    from workbench.optimizing.outcome import Outcome
    from workbench.planning.balancing import BalancedExperiment
    from workbench.runs.events import Event
    from workbench.runs.run_context import RunControl
    from workbench.runs.run_store import StoredRun

Experiment = LoadedExperiment | ExperimentSpec


def _nobody(text: object) -> None:
    """Be told, and say nothing."""


def load(
    source: str,
    changes: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
    *,
    trust: bool = False,
    calls: bool = True,
    tell: Callable[[str], None] = _nobody,
) -> LoadedExperiment:
    """Return a preset, an experiment in a file, or one around a Keras model.

    Args:
        source: `mnist-ipu`, `mine.toml`, `model.keras`, `keras:NAME`,
            `file.py:function`.
        changes: Fields to change, as `data.batch_size=32`.
        environment: Variables that change fields too: IPU_WORKBENCH_TRAIN__EPOCHS.
        trust: Whether code that the experiment names may run from now on.
        calls: Whether functions of the user's may be called now.
        tell: Told when TensorFlow is loaded.
    """
    try:
        loaded = load_experiment(
            source, changes, environment, trust=trust, calls=calls, tell=tell
        )
    except PresetError as error:
        raise Refused.for_problems([error.as_problem()]) from error
    if loaded.spec is None:
        errors = (item for item in loaded.problems if item.severity is Severity.ERROR)
        raise Refused.for_problems(errors, source)
    return loaded


def plan(experiment: Experiment, *, inference: bool = False) -> Plan:
    """Return what an experiment would do on the device: time, memory, timeline.

    What the device would refuse is in the plan's `problems`, and raises nothing.
    """
    make = plan_inference if inference else plan_experiment
    return make(_spec(experiment))


def balance(
    experiment: Experiment, stages: int, objective: str = "time", samples: int = 0
) -> BalancedExperiment:
    """Return the experiment with its layers cut into the best stages of a pipeline.

    Args:
        experiment: What to cut; its own stages do not matter.
        stages: How many.
        objective: What there should be least of: `time`, `memory`, …
        samples: Samples of a weight update; 0 lets the micro-batch stay.
    """
    # It loads the search, which a plan does without.
    from workbench.planning.balancing import balanced_experiment

    return balanced_experiment(_spec(experiment), stages, objective, samples=samples)


def optimize(
    experiment: Experiment,
    objective: str = "throughput",
    *,
    ipus: int | None = None,
    update_samples: int | None = None,
    fixed: frozenset[str] = frozenset(),
) -> Outcome:
    """Return the best settings for a goal, each with its plan.

    Args:
        experiment: Where the search begins.
        objective: One of `workbench.optimizing.goal.Goal`.
        ipus: How many at most; as many as the system has.
        update_samples: Samples of a weight update, 0 for any; as many as it has.
        fixed: Fields that stay as they are.
    """
    # It loads the search, which a plan does without.
    from workbench.optimizing.goal import Aim, Goal
    from workbench.optimizing.outcome import optimize as search
    from workbench.optimizing.search_space import SearchSpace
    from workbench.planning.same_training import update_samples as own_samples

    spec = _spec(experiment)
    most = _ipus(spec, ipus, fixed)
    samples = own_samples(spec) if update_samples is None else update_samples
    space = SearchSpace(spec, most, samples, fixed)
    stages = space.allowed_cuts.least_stages
    if stages > most:
        which = "stages" if "pipeline.stages" in fixed else "locked"
        text = f"{most} is too few for the {stages} stages of pipeline.{which}"
        needed = 1 << (stages - 1).bit_length()
        raise Refused(text, f"{needed} or more", "--ipus")
    outcome = search(
        space, Aim(Goal(objective), count(spec).train.samples * spec.train.epochs)
    )
    if not outcome.best and space.empty:
        text = f"no settings agree with what is fixed and {space.update_samples:,} "
        text += "samples per update" if space.update_samples else ""
        which = "--fix" if fixed else "--update-samples"
        raise Refused(text.rstrip(), "fix less, or --update-samples any", which)
    return outcome


def _ipus(spec: ExperimentSpec, asked: int | None, fixed: frozenset[str]) -> int:
    """Return how many IPUs there may be; refuse what can be no device."""
    system = find_system(spec.execution.system, hardware_file())
    if system is None:
        text = f"{spec.execution.system!r} is not known"
        known = ", ".join(item.name for item in systems(hardware_file()))
        raise Refused(text, f"one of {known}", "execution.system")
    own = selected_ipus(spec)
    ipus = asked
    if ipus is None:
        ipus = own if "ipu.auto_select_ipus" in fixed else system.ipus
    if "ipu.auto_select_ipus" in fixed and ipus != own:
        text = f"{ipus} is not the {own} of ipu.auto_select_ipus, which is fixed"
        raise Refused(text, str(own), "--ipus")
    if ipus < 1 or ipus & (ipus - 1):
        hint = "a power of two: 1, 2, 4, ..."
        raise Refused(f"{ipus} IPUs are no device", hint, "--ipus")
    problems = plan_experiment(spec, with_remedies=False).problems
    if wrong := [item for item in problems if _stays(item, fixed)]:
        raise Refused.for_problems(wrong)
    return ipus


def _stays(problem: Problem, fixed: frozenset[str]) -> bool:
    """Tell whether nothing that is searched takes a problem away."""
    from workbench.optimizing.search_space import FIXABLE

    if problem.severity is not Severity.ERROR:
        return False
    if problem.where == "pipeline.stages":
        return problem.where in fixed
    return problem.where.startswith("ipu.") and problem.where not in FIXABLE


def run(
    experiment: Experiment,
    *,
    preset: str = "",
    resume: str | None = None,
    control: RunControl | None = None,
    watch: Callable[[Event], object] = _nobody,
) -> StoredRun:
    """Train an experiment in this thread, and return its record.

    Args:
        experiment: What to train.
        preset: What lists call it.
        resume: Id of the run that it goes on with.
        control: Stops or pauses it, from another thread.
        watch: Told every event, which is in the record already.
    """
    # They load the backends, which a plan does without.
    from workbench.runs.events import RunStarted
    from workbench.runs.run_context import RunControl as Control
    from workbench.runs.run_store import open_run
    from workbench.runs.runner import run_experiment

    spec = _spec(experiment)
    planned = plan_experiment(spec)
    blocking = [p for p in planned.problems if p.severity is not Severity.WARNING]
    if blocking:
        raise Refused.for_problems(blocking)
    if not preset and isinstance(experiment, LoadedExperiment):
        preset = experiment.preset.name
    ids: list[str] = []

    def told(event: Event) -> None:
        if isinstance(event, RunStarted):
            ids.append(event.run_id)
        watch(event)

    status = run_experiment(
        spec,
        control or Control(),
        told,
        preset=preset,
        resume=resume,
        plan=planned,
    )
    return replace(open_run(ids[0], damaged_too=True), status=status)


def runs(group: str | None = None) -> list[StoredRun]:
    """Return the records of all runs, or of a group's, newest first."""
    from workbench.runs.run_store import list_runs

    return list_runs(group)


def _spec(experiment: Experiment) -> ExperimentSpec:
    spec = experiment if isinstance(experiment, ExperimentSpec) else experiment.spec
    if spec is None:
        raise Refused("the experiment has values that are wrong")
    return spec
