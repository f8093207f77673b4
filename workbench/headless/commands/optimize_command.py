"""`ipu-workbench optimize`: the best settings for a goal, on the model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ipu_runtime.plan.hardware import find_system, systems
from ipu_runtime.plan.problem import Problem, Severity
from workbench.data.sample_counts import count
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.model_tables import tables_for_file
from workbench.experiment.tables import spec_to_tables
from workbench.experiment.toml_text import to_toml
from workbench.experiment.topology import selected_ipus
from workbench.headless.diagnostics import UsageError, say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.experiment_argument import (
    add_experiment_argument,
    read_experiment,
)
from workbench.headless.output import (
    check_target,
    print_document,
    print_json,
    readers_may_leave,
    write_text,
)
from workbench.headless.update_argument import (
    UPDATE_SAMPLES,
    add_update_samples,
    asked_samples,
)
from workbench.locations import hardware_file
from workbench.optimizing.goal import Aim, Goal
from workbench.optimizing.outcome import Outcome, optimize
from workbench.optimizing.search_space import FIXABLE, SearchSpace
from workbench.planning.experiment_plan import plan_experiment
from workbench.views.outcome import outcome_document, outcome_row


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "optimize",
        help="find the best settings for a goal, on the model",
        description="Searches stages and cuts, replicas, accumulation, micro-batch, "
        "schedule, recomputation, I/O tiles, partials and memory proportion together. "
        "Offloading is tried where nothing fits without it.",
    )
    add_experiment_argument(parser)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--ipus", type=int, metavar="N", help="how many IPUs at most")
    size.add_argument("--system", metavar="NAME", help="all IPUs of this system")
    parser.add_argument(
        "--objective",
        choices=[goal.value for goal in Goal],
        default=Goal.THROUGHPUT.value,
        help="what should be best (default: %(default)s); latency is that of a weight "
        "update, or of a micro-batch where nothing is trained",
    )
    add_update_samples(parser)
    parser.add_argument(
        "--fix",
        metavar="FIELD[=VALUE]",
        action="append",
        default=[],
        help=f"leave a field alone, or set it and leave it: {', '.join(FIXABLE)}",
    )
    parser.add_argument(
        "--apply", type=int, metavar="N", help="write the experiment of row N"
    )
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="where --apply writes it"
    )
    parser.add_argument("--json", action="store_true", help="one object")
    parser.set_defaults(run=run_optimize)


def run_optimize(args: argparse.Namespace) -> int:
    """Print the best settings of an experiment."""
    _check_writing(args)
    fixed = _fixed(args)
    spec, loaded = read_experiment(args)
    name = spec.experiment.name or loaded.preset.name
    space = _space(spec, args, fixed)
    aim = Aim(Goal(args.objective), count(spec).train.samples * spec.train.epochs)
    outcome = optimize(space, aim)
    if not outcome.best and space.empty:
        which = "--fix" if fixed else UPDATE_SAMPLES
        text = f"no settings agree with what is fixed and {space.update_samples:,} "
        text += "samples per update" if space.update_samples else ""
        hint = f"fix less, or {UPDATE_SAMPLES} any"
        raise UsageError([Problem(which, text.rstrip(), hint)], name)
    with readers_may_leave():
        if args.json:
            print_json(outcome_row(outcome, name))
        else:
            document = outcome_document(outcome, name)
            print_document(document, ascii_only=args.ascii)
    if args.apply is not None:
        _write(outcome, args.apply, args.output or Path(f"{name}-optimized.toml"))
    return ExitCode.DONE if outcome.best else ExitCode.NO_FIT


def _check_writing(args: argparse.Namespace) -> None:
    check_target("--output", args.output, args.experiment)
    if args.output is not None and args.apply is None:
        text = "nothing is written without --apply"
        raise UsageError([Problem("--output", text, "--apply N")])
    if args.apply is not None and args.apply < 1:
        text = f"there is no row {args.apply}"
        raise UsageError([Problem("--apply", text, "1 or more")])


def _fixed(args: argparse.Namespace) -> frozenset[str]:
    """Return the fields that stay; those with a value are changed before."""
    given = [text.partition("=")[0].strip() for text in args.fix]
    names = set(given)
    twice = [name for name in given if given.count(name) > 1]
    if twice:
        text = f"{twice[0]} is given {given.count(twice[0])} times"
        raise UsageError([Problem("--fix", text, "once")])
    unknown = sorted(names - FIXABLE.keys())
    if unknown:
        text = f"{unknown[0]} is not searched"
        raise UsageError([Problem("--fix", text, f"one of {', '.join(FIXABLE)}")])
    args.changes = [*args.changes, *(text for text in args.fix if "=" in text)]
    if args.system:
        args.changes = [*args.changes, f"execution.system={args.system}"]
    return frozenset(names)


def _space(
    spec: ExperimentSpec, args: argparse.Namespace, fixed: frozenset[str]
) -> SearchSpace:
    system = find_system(spec.execution.system, hardware_file())
    if system is None:
        text = f"{spec.execution.system!r} is not known"
        known = ", ".join(item.name for item in systems(hardware_file()))
        raise UsageError([Problem("execution.system", text, f"one of {known}")])
    ipus, own = args.ipus, selected_ipus(spec)
    if ipus is None:
        ipus = own if "ipu.auto_select_ipus" in fixed else system.ipus
    if "ipu.auto_select_ipus" in fixed and ipus != own:
        text = f"{ipus} is not the {own} of ipu.auto_select_ipus, which is fixed"
        raise UsageError([Problem("--ipus", text, str(own))])
    if ipus < 1 or ipus & (ipus - 1):
        text = f"{ipus} IPUs are no device"
        raise UsageError([Problem("--ipus", text, "a power of two: 1, 2, 4, ...")])
    problems = plan_experiment(spec, with_remedies=False).problems
    wrong = [item for item in problems if _stays(item, fixed)]
    if wrong:
        raise UsageError(wrong, str(args.experiment))
    space = SearchSpace(spec, ipus, asked_samples(args, spec), fixed)
    stages = space.allowed_cuts.least_stages
    if stages > ipus:
        which = "stages" if "pipeline.stages" in fixed else "locked"
        text = f"{ipus} is too few for the {stages} stages of pipeline.{which}"
        needed = 1 << (stages - 1).bit_length()
        raise UsageError([Problem("--ipus", text, f"{needed} or more")])
    return space


def _stays(problem: Problem, fixed: frozenset[str]) -> bool:
    """Tell whether nothing that is searched takes a problem away."""
    if problem.severity is not Severity.ERROR:
        return False
    if problem.where == "pipeline.stages":
        return problem.where in fixed
    return problem.where.startswith("ipu.") and problem.where not in FIXABLE


def _write(outcome: Outcome, row: int, path: Path) -> None:
    if not 1 <= row <= len(outcome.best):
        text = f"there is no row {row}"
        raise UsageError([Problem("--apply", text, f"1 to {len(outcome.best)}")])
    tables = tables_for_file(spec_to_tables(outcome.best[row - 1].spec))
    write_text(path, to_toml(tables))
    say(f"train it with: ipu-workbench run {path}")
