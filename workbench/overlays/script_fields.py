"""Which fields of an experiment a script's own calls take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu_runtime.plan.config.config_fields import IPU_CONFIG_FIELD
from ipu_runtime.plan.placements import PLACEMENTS
from ipu_runtime.plan.problem import Problem
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.field_differences import differences, flatten
from workbench.experiment.field_values import read_value

FIELD_OF_SETTING = {
    "batch_size": "data.batch_size",
    "epochs": "train.epochs",
    "steps_per_epoch": "train.steps_per_epoch",
    "steps_per_execution": "execution.steps_per_execution",
    "gradient_accumulation": "execution.gradient_accumulation",
    "accumulation_reduction": "execution.accumulation_reduction",
    "metric_reduction": "execution.metric_reduction",
    "stages": "pipeline.stages",
    "schedule": "pipeline.schedule",
    "recomputation": "pipeline.recomputation",
    "device_mapping": "pipeline.device_mapping",
    **{name: f"pipeline.{name}" for name in PLACEMENTS},
    **{f"ipu.{path}": f"ipu.{path}" for path in IPU_CONFIG_FIELD},
}
"""Fields of an experiment by the runtime's names of a call's settings."""

SETTING_OF_FIELD = {path: name for name, path in FIELD_OF_SETTING.items()}
COUNTS = ("batch_size", "epochs", "steps_per_epoch", "steps_per_execution")
"""Settings that belong to one kind of program: training and testing differ in them."""

WHOLE_EPOCH = "epoch"
"""Steps of an execution that every kind of program can be given."""

_ONLY_SAID = ("experiment.", "pipeline.locked", "model.content", "model.trusted")
"""Fields that change nothing about a program."""


def script_changes(
    tables: Mapping[str, Any], script: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the fields of an experiment that a script has otherwise.

    Args:
        tables: The experiment.
        script: What the script has; None means that every field is a change.
    """
    if script is None:
        found = flatten(tables)
    else:
        found = {item.path: item.values[0] for item in differences(tables, script)}
        found.pop("model.source", None)
    return {
        path: value for path, value in found.items() if not path.startswith(_ONLY_SAID)
    }


def check_changes(changes: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with changes, before any script runs."""
    problems = []
    for path, value in changes.items():
        if path not in SETTING_OF_FIELD:
            text = "no call of a script to the runtime takes this"
            hint = "change it in the script, or leave it as the script has it"
            problems.append(Problem(path, text, hint))
            continue
        _, problem = read_value(FIELD_OF_PATH[path], value, path)
        if problem:
            problems.append(problem)
    return problems
