"""The arguments that several commands take."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.cluster.place import FORMS, WAIT_S, Place, parse_place
from workbench.headless.diagnostics import report_problems, say
from workbench.services.refused import Refused

if TYPE_CHECKING:
    from workbench.experiment.experiment_loading import LoadedExperiment
    from workbench.experiment.experiment_spec import ExperimentSpec


def add_experiment_argument(
    parser: argparse.ArgumentParser,
    *,
    optional: bool = False,
    metavar: str = "PRESET|FILE",
    meaning: str = "name of a preset, path of a TOML file, or a model: model.keras, "
    "keras:NAME, file.py:function",
) -> None:
    """Add `PRESET|FILE` and `--set`."""
    nargs = "?" if optional else None
    parser.add_argument("experiment", nargs=nargs, metavar=metavar, help=meaning)
    parser.add_argument(
        "--set",
        dest="changes",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        help="change a field, for example --set train.epochs=1; may be repeated",
    )
    add_trust_argument(parser)


def add_trust_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--trust`."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="let code run that a preset, a record or a model file names; remembered "
        "until it changes",
    )


def read_experiment(
    args: argparse.Namespace, *, calls: bool = True, warn: bool = True
) -> tuple[ExperimentSpec, LoadedExperiment]:
    """Return the experiment that the arguments name, or raise with every problem.

    Warnings are printed, unless who calls shows them with the plan's. Without `calls`,
    no function of the user's is called.
    """
    # It loads the planner, which lists do without.
    from workbench import api

    loaded = api.load(
        str(args.experiment),
        args.changes,
        args.environment,
        trust=args.trust,
        calls=calls,
        tell=say,
    )
    if warn:
        report_problems(loaded.problems, str(args.experiment))
    assert loaded.spec is not None
    return loaded.spec, loaded


RUN_HELP = "id of a run or the beginning of it, or: latest"


def add_run_argument(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add `RUN`, or `RUN...`."""
    if several:
        parser.add_argument("runs", metavar="RUN", nargs="+", help=RUN_HELP)
    else:
        parser.add_argument("run_id", metavar="RUN", help=RUN_HELP)


UPDATE_SAMPLES = "--update-samples"
_ANY = "any"


def add_update_samples(parser: argparse.ArgumentParser) -> None:
    """Add the argument."""
    parser.add_argument(
        UPDATE_SAMPLES,
        metavar="N",
        help="samples of a weight update, or any, which trains otherwise (default: as "
        "many as the experiment has)",
    )


def asked_samples(args: argparse.Namespace, spec: ExperimentSpec) -> int:
    """Return the samples of a weight update that are asked for; 0 for any."""
    # It loads the planner, which lists do without.
    from workbench.planning.same_training import update_samples

    text = args.update_samples
    if text is None:
        return update_samples(spec)
    if text == _ANY:
        return 0
    if text.isdecimal() and int(text) > 0:
        return int(text)
    problem = f"{text!r} is no number of samples"
    raise Refused(problem, f"1 or more, or {_ANY}", UPDATE_SAMPLES)


_MOST_DIGITS = 9


def add_place_argument(parser: argparse.ArgumentParser, default: str = "local") -> None:
    """Add `--on`, and what belongs to it."""
    parser.add_argument(
        "--on",
        metavar="PLACE",
        type=_place,
        default=default,
        help=f"where: {FORMS}; ray starts Ray on this machine, auto is the cluster "
        f"that this machine is part of; default: {default}",
    )
    parser.add_argument(
        "--allow-network",
        action="store_true",
        help="allow machines with public addresses: nothing is encrypted",
    )
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=_seconds,
        default=WAIT_S,
        help="how long to wait for machines of a cluster that are gone or too small; "
        f"default: {WAIT_S:g}",
    )


def chosen_place(args: argparse.Namespace) -> Place:
    """Return the place that a command line names."""
    place: Place = args.on
    return replace(place, network_allowed=args.allow_network, wait_s=args.wait)


def _seconds(text: str) -> float:
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"{text!r} must be whole seconds from 0 on")
    return float(text)


def _place(text: str) -> Place:
    try:
        return parse_place(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
