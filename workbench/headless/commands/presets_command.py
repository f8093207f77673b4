"""`ipu-workbench presets`: list them, show one, check files."""

from __future__ import annotations

import argparse
from typing import Any

from ipu_runtime.plan.plain_data import plain
from ipu_runtime.plan.problem import Problem, Severity
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.preset_store import Preset, PresetError, list_presets
from workbench.experiment.tables import spec_value
from workbench.headless.arguments import (
    add_experiment_argument,
    add_trust_argument,
    read_experiment,
)
from workbench.headless.diagnostics import report_problems, say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.output import print_json, print_line
from workbench.planning.experiment_plan import plan_experiment
from workbench.views.cells import pad


def add_parser(subparsers: Any) -> None:
    """Add the command and what it can do."""
    parser = subparsers.add_parser(
        "presets", help="list, show or check presets; alone, list"
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    parser.set_defaults(run=_list, json=False)
    listing = actions.add_parser("list", help="list all presets")
    listing.set_defaults(run=_list)
    showing = actions.add_parser(
        "show", help="show every value of a preset and where it comes from"
    )
    add_experiment_argument(showing)
    showing.add_argument(
        "--all", action="store_true", help="also IPU fields that have their default"
    )
    showing.set_defaults(run=_show)
    checking = actions.add_parser("validate", help="check preset files")
    checking.add_argument("files", nargs="+", metavar="PRESET|FILE")
    add_trust_argument(checking)
    checking.set_defaults(run=_validate)
    for action in (listing, showing, checking):
        action.add_argument("--json", action="store_true", help="one object per line")


def _list(args: argparse.Namespace) -> int:
    heading = ""
    for preset in list_presets():
        if args.json:
            print_json(_listed(preset))
            continue
        if preset.group != heading:
            print_line(f"{preset.group}" if not heading else f"\n{preset.group}")
            heading = preset.group
        title = "cannot be read" if preset.problems else preset.title
        print_line(f"  {pad(preset.name, 32)}{title}")
        report_problems(preset.problems)
    return ExitCode.DONE


def _listed(preset: Preset) -> dict[str, Any]:
    experiment = preset.tables.get("experiment", {})
    return {
        "event": "preset",
        "name": preset.name,
        "title": preset.title,
        "group": preset.group,
        "teaches": experiment.get("teaches", ""),
        "source": experiment.get("source", ""),
        "packaged": preset.packaged,
        "path": str(preset.path),
        "problems": [str(problem) for problem in preset.problems],
    }


def _show(args: argparse.Namespace) -> int:
    spec, loaded = read_experiment(args)
    rows = {
        path: (spec_value(spec, path), loaded.sources.get(path, "default"))
        for path in FIELD_OF_PATH
    }
    layers = [
        {"name": layer.name, "kind": layer.kind, **layer.settings}
        for layer in spec.model.layers
    ]
    if args.json:
        for path, (value, source) in rows.items():
            print_json(
                {"event": "field", "field": path, "value": value, "source": source}
            )
        print_json({"event": "layers", "layers": layers})
        return ExitCode.DONE
    for path, (value, source) in rows.items():
        if args.all or not (path.startswith("ipu.") and source == "default"):
            print_line(f"{path:<36} {_shown(value):<32} {source}")
    print_line()
    for position, layer in enumerate(layers):
        settings = ", ".join(
            f"{name}={_shown(value)}"
            for name, value in layer.items()
            if name not in ("name", "kind")
        )
        title = f"{pad(layer['name'], 20)} {layer['kind']:<16}"
        print_line(f"model.layers[{position}]  {title} {settings}")
    return ExitCode.DONE


def _validate(args: argparse.Namespace) -> int:
    wrong = 0
    for name in args.files:
        problems = _problems_of(name, args)
        errors = [item for item in problems if item.severity is Severity.ERROR]
        wrong += bool(errors)
        if args.json:
            row = {"event": "validated", "file": name, "valid": not errors}
            print_json({**row, "problems": plain(problems)})
            continue
        report_problems(problems, name)
        if not errors:
            print_line(f"{name}: valid")
    if wrong and not args.json:
        say(f"{wrong} of {len(args.files)} not valid")
    return ExitCode.USAGE if wrong else ExitCode.DONE


def _problems_of(name: str, args: argparse.Namespace) -> tuple[Problem, ...]:
    try:
        loaded = load_experiment(
            name, environment=args.environment, trust=args.trust, tell=say
        )
    except PresetError as error:
        return (Problem(error.field, error.problem, error.hint),)
    if loaded.spec is None:
        return loaded.problems
    return (*loaded.problems, *plan_experiment(loaded.spec).problems)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = value if value else '""'
        return text if len(text) <= 60 else f"{text[:57]}..."
    if isinstance(value, list) and len(value) > 16:
        return (
            f"[{', '.join(str(item) for item in value[:14])}, ... {len(value)} in all]"
        )
    return str(value)
