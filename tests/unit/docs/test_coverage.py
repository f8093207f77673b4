"""The standing of a name follows from comparing it with the real one."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from docs.coverage.comparison import (
    Covered,
    Standing,
    compared,
    internal,
    module_coverage,
    setting_coverage,
)
from docs.coverage.declared_effects import INTERNAL
from docs.coverage.real_api import PublicName, public_modules, public_names

REPEAT = PublicName(
    sdk="3.4",
    module="made_up",
    name="repeat",
    is_class=False,
    signatures={"": "(n, body, inputs=None, use_while=True, *, name='loop')"},
    members=(),
    places=("made_up.again",),
)
QUEUE = PublicName(
    sdk="3.4",
    module="made_up",
    name="Queue",
    is_class=True,
    signatures={
        "__init__": "(depth=3, **kwargs)",
        "dequeue": "(wait=False)",
        "enqueued": "property",
    },
    members=(),
    places=(),
)
MODE = PublicName("3.4", "made_up", "Mode", True, {}, ("ALL", "LAST"), ())

REPEAT_CODE = (
    "def repeat(n, body, inputs=None, use_while=True, *, name='loop'): ...\n"
    "again = repeat"
)
QUEUE_CODE = """
class Queue:
    def __init__(self, depth=3, **kwargs):
        self.enqueued = False
    def dequeue(self, wait=False): ...
"""
MODE_CODE = "import enum\nclass Mode(enum.Enum):\n    ALL = 1\n    LAST = 2"


def standing(
    monkeypatch: pytest.MonkeyPatch, real: PublicName, code: str
) -> tuple[Standing, str]:
    """Compare a name with a module of the given code."""
    module = ModuleType("made_up")
    exec(code, vars(module))
    monkeypatch.setitem(sys.modules, "made_up", module)
    return compared(real)


@pytest.mark.parametrize(
    ("real", "code"), [(REPEAT, REPEAT_CODE), (QUEUE, QUEUE_CODE), (MODE, MODE_CODE)]
)
def test_a_name_with_everything_is_full(
    monkeypatch: pytest.MonkeyPatch, real: PublicName, code: str
) -> None:
    assert standing(monkeypatch, real, code) == (Standing.FULL, "")


@pytest.mark.parametrize("real", [REPEAT, QUEUE, MODE])
def test_a_name_that_is_taken_away_is_not_available(
    monkeypatch: pytest.MonkeyPatch, real: PublicName
) -> None:
    assert standing(monkeypatch, real, "") == (Standing.ABSENT, "")


@pytest.mark.parametrize(
    ("real", "code", "note"),
    [
        (
            REPEAT,
            REPEAT_CODE.replace("inputs", "values"),
            "no argument inputs",
        ),
        (
            REPEAT,
            REPEAT_CODE.replace(", use_while=True", "").replace(
                "'loop'", "'loop', **k"
            ),
            "only through **: use_while",
        ),
        (
            REPEAT,
            REPEAT_CODE.replace("n, body", "body, n"),
            "in another place: n, body",
        ),
        (
            REPEAT,
            REPEAT_CODE.replace("body, inputs=None", "body, *, inputs=None").replace(
                "*, name", "name"
            ),
            "in another place: inputs, use_while",
        ),
        (
            REPEAT,
            REPEAT_CODE.replace("inputs=None, use_while=True", "inputs, use_while"),
            "needs inputs, use_while",
        ),
        (REPEAT, REPEAT_CODE.replace("*, name", "*, more, name"), "needs more"),
        (
            REPEAT,
            REPEAT_CODE.replace("True", "1"),
            "use_while is 1 by default, not True",
        ),
        (
            REPEAT,
            REPEAT_CODE.replace("again", "again_and_again"),
            "not at `made_up.again`",
        ),
        (
            QUEUE,
            QUEUE_CODE.replace("wait", "wait_for_completion"),
            "dequeue: no argument wait",
        ),
        (QUEUE, QUEUE_CODE.replace(", **kwargs", ""), "no **kwargs"),
        (
            QUEUE,
            QUEUE_CODE.replace("def dequeue", "def take").replace("enqueued", "ready"),
            "no methods or properties dequeue, enqueued",
        ),
        (QUEUE, "Queue = 3", "is no class"),
        (MODE, MODE_CODE.replace("LAST", "ONE"), "no members LAST"),
    ],
)
def test_what_is_missing_makes_a_name_partial(
    monkeypatch: pytest.MonkeyPatch, real: PublicName, code: str, note: str
) -> None:
    assert standing(monkeypatch, real, code) == (Standing.PARTIAL, note)


def test_further_arguments_with_defaults_do_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = REPEAT_CODE.replace("name='loop'", "name='loop', feed_name=None")
    assert standing(monkeypatch, REPEAT, code) == (Standing.FULL, "")


def test_a_default_that_only_the_real_package_can_say_is_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = {"": REPEAT.signatures[""].replace("None", "dtypes.half")}
    real = replace(REPEAT, signatures=texts)
    assert standing(monkeypatch, real, REPEAT_CODE) == (Standing.FULL, "")


def test_a_module_that_cannot_import_something_else_is_a_mistake(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "made_up.py").write_text("import no_such_module", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        compared(REPEAT)


def test_a_module_is_full_only_when_all_its_names_are() -> None:
    loops = "tensorflow.python.ipu.loops"

    def standing_with(second: Standing) -> Standing:
        (module,) = module_coverage(
            Covered("ipu", "", standing, dotted=f"{loops}.{name}")
            for name, standing in (("repeat", Standing.FULL), ("while_loop", second))
        )
        return module.standing

    assert standing_with(Standing.FULL) is Standing.FULL
    assert standing_with(Standing.PARTIAL) is Standing.PARTIAL
    assert standing_with(Standing.ABSENT) is Standing.PARTIAL


def test_every_pattern_of_internal_names_is_needed() -> None:
    names = {real.dotted for real in public_names()}
    methods = {f"{r.dotted}.{m}" for r in public_names() for m in r.signatures}
    used = {internal(name) for name in names | methods | public_modules().keys()}
    assert used - {""} == INTERNAL.keys()


def test_fields_without_effect_are_stored_only() -> None:
    standings = {item.name: item.standing for item in setting_coverage()}
    assert standings["optimizations.math.fast"] is Standing.STORED
    assert standings["auto_select_ipus"] is Standing.FULL
    assert standings["compilation_poplar_options"] is Standing.PARTIAL
