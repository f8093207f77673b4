"""`ipu-workbench optimize`: the best settings for a goal, on the model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from workbench import api
from workbench.experiment.model_tables import tables_for_file
from workbench.experiment.tables import spec_to_tables
from workbench.experiment.toml_text import to_toml
from workbench.headless.arguments import (
    UPDATE_SAMPLES,
    add_experiment_argument,
    add_update_samples,
    asked_samples,
    read_experiment,
)
from workbench.headless.diagnostics import say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.output import (
    print_document,
    print_json,
    readers_may_leave,
    write_text,
)
from workbench.optimizing.goal import Goal
from workbench.optimizing.outcome import Outcome
from workbench.optimizing.search_space import FIXABLE
from workbench.services.refused import Refused, check_target
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
    samples = asked_samples(args, spec)
    try:
        outcome = api.optimize(
            spec, args.objective, ipus=args.ipus, update_samples=samples, fixed=fixed
        )
    except Refused as refused:
        refused.file = _file(refused, args, name)
        raise
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
        raise Refused(text, "--apply N", "--output")
    if args.apply is not None and args.apply < 1:
        text = f"there is no row {args.apply}"
        raise Refused(text, "1 or more", "--apply")


def _fixed(args: argparse.Namespace) -> frozenset[str]:
    """Return the fields that stay; those with a value are changed before."""
    given = [text.partition("=")[0].strip() for text in args.fix]
    names = set(given)
    twice = [name for name in given if given.count(name) > 1]
    if twice:
        text = f"{twice[0]} is given {given.count(twice[0])} times"
        raise Refused(text, "once", "--fix")
    unknown = sorted(names - FIXABLE.keys())
    if unknown:
        text = f"{unknown[0]} is not searched"
        raise Refused(text, f"one of {', '.join(FIXABLE)}", "--fix")
    args.changes = [*args.changes, *(text for text in args.fix if "=" in text)]
    if args.system:
        args.changes = [*args.changes, f"execution.system={args.system}"]
    return frozenset(names)


def _file(refused: Refused, args: argparse.Namespace, name: str) -> str:
    """Return what a refusal is about."""
    where = refused.problems[0].where
    if where in ("--fix", UPDATE_SAMPLES):
        return name
    return str(args.experiment) if where.startswith(("ipu.", "pipeline.")) else ""


def _write(outcome: Outcome, row: int, path: Path) -> None:
    if not 1 <= row <= len(outcome.best):
        text = f"there is no row {row}"
        raise Refused(text, f"1 to {len(outcome.best)}", "--apply")
    tables = tables_for_file(spec_to_tables(outcome.best[row - 1].spec))
    write_text(path, to_toml(tables))
    say(f"train it with: ipu-workbench run {path}")
