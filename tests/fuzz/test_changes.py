"""`--set`, `--grid`, the environment and stages of any content."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ipu_runtime.system.engine_options import EngineOptionsError, parse_engine_options
from ipu_runtime.system.poplar_flags import FLAGS, PoplarFlagsError, parse_flags
from tests.fuzz.cases import cases, command, in_time
from tests.fuzz.hostile import NASTY_SOURCES, numbers, sources, texts, values
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.overrides import variable_of_field
from workbench.experiment.preset_store import (
    PresetError,
    list_presets,
    save_preset,
)
from workbench.runs.run_record import RunRecord
from workbench.store_json import RecordError
from workbench.sweeps.sweep_grid import count_points, parse_grid

PRESET = "mnist-ipu-pipelined"
_paths = (
    st.sampled_from(sorted(FIELD_OF_PATH))
    | st.builds(
        "model.layers[{}].{}".format,
        st.integers(0, 9),
        st.sampled_from(["units", "filters", "kernel_size", "name", "kind", "shape"]),
    )
    | texts
)
_values = texts | sources | numbers.map(str) | values.map(lambda v: json.dumps(v))
_changes = st.builds("{}={}".format, _paths, _values) | texts
_numbers = st.sampled_from([0, 1, 1, 2, 3, 4, 8, 63, 4096, 10**6, 10**9, 10**18])


@cases
@given(changes=st.lists(_changes, min_size=1, max_size=3))
def test_any_change(changes: list[str]) -> None:
    command("plan", PRESET, *(f"--set={change}" for change in changes))


@cases
@given(path=st.sampled_from(sorted(FIELD_OF_PATH)), value=_values)
def test_any_value_in_the_environment(path: str, value: str) -> None:
    command("plan", PRESET, environment={variable_of_field(path): value})


@cases
@given(
    grids=st.lists(
        st.builds(
            "{}={}".format, _paths | st.just("stages"), st.lists(_values).map(",".join)
        )
        | st.builds("stages={}..{}..{}".format, _numbers, _numbers, _numbers)
        | texts,
        min_size=1,
        max_size=3,
    )
)
def test_any_grid(grids: list[str]) -> None:
    with in_time():
        axes, problems = parse_grid(grids)
    assert axes or problems
    assume(problems or count_points(axes) <= 4)
    command("sweep", PRESET, "--plan-only", *(f"--grid={grid}" for grid in grids))


@cases
@given(
    stages=st.lists(_numbers, max_size=9)
    | st.permutations([0, 0, 0, 1, 1, 2, 3])
    | st.sampled_from([[0, 0, 0, 0, 1, 1, 1], [0, 1, 1, 2, 2, 3, 3]]),
    mapping=st.just([]) | st.lists(_numbers, max_size=5) | st.permutations([0, 1, 2]),
    accumulation=_numbers | st.sampled_from([8, 24, 4096, 100_000]),
    steps=_numbers | st.sampled_from([8, 24, 4096, 400_000]),
    ipus=_numbers | st.sampled_from([2, 4]),
    schedule=st.sampled_from(["Grouped", "Interleaved", "Sequential"]),
)
def test_any_stages_devices_and_counts(
    stages: list[int],
    mapping: list[int],
    accumulation: int,
    steps: int,
    ipus: int,
    schedule: str,
) -> None:
    changes = {
        "pipeline.stages": stages,
        "pipeline.device_mapping": mapping,
        "pipeline.schedule": schedule,
        "execution.gradient_accumulation": accumulation,
        "execution.steps_per_execution": steps,
        "ipu.auto_select_ipus": ipus,
        "data.dataset": "synthetic",
        "data.train_samples": 10**9,
    }
    command("plan", PRESET, *(f"--set={path}={v}" for path, v in changes.items()))


@cases
@given(stages=_numbers | st.integers(), name=texts)
def test_any_number_of_stages_to_balance(stages: int, name: str) -> None:
    command("balance", "mnist-dense", f"--stages={stages}")
    command("balance", "--stages=2", "--", name)


# Hypothesis takes texts from the code it tests too, and presets are named there.
_PRESETS = frozenset(preset.name for preset in list_presets())
_unknown = texts.filter(lambda name: name not in _PRESETS)


@cases
@given(name=_unknown)
def test_any_name_stays_in_its_directory(home: Path, name: str) -> None:
    for words in (["plan"], ["runs", "show"], ["export"], ["presets", "show"]):
        assert command(*words, "--", name).code
    command("runs", "compare", "--", name, "latest")
    command("sweep", PRESET, "--plan-only", "--grid=stages=2", f"--group={name}")
    command("sweep", f"--resume={name}")
    with suppress(RecordError):
        RunRecord.create({}, PRESET, group=name).close()
    with suppress(PresetError):
        save_preset(name, {}, overwrite=True)
    assert {path.name for path in home.parent.iterdir()} <= {"home"}
    assert {path.name for path in home.iterdir()} <= {"sweeps", "runs", "presets"}


_flags = st.builds(
    "--{}={}".format, st.sampled_from(sorted(FLAGS)), texts | numbers.map(str)
)


@cases
@given(
    flags=st.lists(_flags | texts, max_size=3).map(" ".join),
    options=texts | values.map(json.dumps) | st.sampled_from(NASTY_SOURCES),
)
def test_any_flags_and_options(flags: str, options: str) -> None:
    for read, text, error in (
        (parse_flags, flags, PoplarFlagsError),
        (parse_engine_options, options, EngineOptionsError),
    ):
        with suppress(error):
            read(text)


def test_options_that_nest_too_deeply_are_refused() -> None:
    with pytest.raises(EngineOptionsError, match="not valid JSON"):
        parse_engine_options("[" * 100_000)
