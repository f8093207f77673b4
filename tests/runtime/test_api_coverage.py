"""The coverage page says what scripts find."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from docs.coverage.comparison import (
    Covered,
    Standing,
    api_coverage,
    setting_coverage,
)
from docs.coverage.declared_effects import PARTIAL_NOTES
from docs.coverage.real_api import public_names
from docs.generate import stale
from ipu_runtime.installing.public_names import IPU

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def covered() -> tuple[Covered, ...]:
    return api_coverage()


def test_the_page_and_the_readme_are_current() -> None:
    assert stale() == [], "run: python -m docs.generate"


def test_every_name_is_listed_once(covered: tuple[Covered, ...]) -> None:
    names = [item.name for item in covered]
    assert len(names) == len(set(names))


def test_notes_belong_to_listed_names(covered: tuple[Covered, ...]) -> None:
    listed = {item.name for item in (*covered, *setting_coverage())}
    assert PARTIAL_NOTES.keys() <= listed


def test_a_note_makes_a_name_partial(covered: tuple[Covered, ...]) -> None:
    standings = {item.name: item.standing for item in covered}
    assert standings["ipu.scopes.partials_type"] is Standing.PARTIAL
    assert standings["ipu.loops.repeat"] is Standing.FULL


def test_full_names_can_be_imported_as_scripts_do(
    covered: tuple[Covered, ...],
) -> None:
    full = {item.dotted for item in covered if item.standing is Standing.FULL}
    places = [
        place
        for real in public_names()
        if real.dotted in full
        for place in (real.dotted, *real.places)
    ]
    lines = [f"from {' import '.join(place.rsplit('.', 1))}" for place in places]
    lines += [
        "import keras.ipu.extensions.pipeline_stage_assignment as assignment",
        "from tensorflow.python.ipu.ops import pipelining_ops",
        "from tensorflow.python import ipu",
        "import keras",
        "assert keras.ipu.PipelineStage is assignment.PipelineStage",
        "assert ipu.pipelining_ops is pipelining_ops",
        "assert ipu.cross_replica_optimizer is ipu.optimizers.cross_replica_optimizer",
        "found_all = True",
    ]
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)
    assert names["found_all"]


@pytest.mark.parametrize(
    "module", ["vertex_edsl", "ops.experimental.popfloat_cast_to_gfloat"]
)
def test_modules_that_only_the_real_package_has_are_named(module: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="the emulator does not have it"):
        importlib.import_module(f"{IPU}.{module}")


def test_a_module_that_nobody_has_is_simply_not_there() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"nonsense'$"):
        importlib.import_module(f"{IPU}.nonsense")
