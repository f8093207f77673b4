"""A function that hands arguments on shows and takes those of the other one."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from ipu_runtime.installing.signatures import with_arguments_of


class Cell:
    """A layer of the kind that others extend."""

    def __init__(
        self, units: int, groups: int = 2, name: str = "Cell", **kwargs: Any
    ) -> None:
        self.given = (units, groups, name, kwargs)


class Gated(Cell):
    """Has an argument more, in the middle, and a name of its own."""

    @with_arguments_of(Cell.__init__, after="groups", name="Gated")
    def __init__(self, reset: bool = False, **arguments: Any) -> None:
        """Make it."""
        super().__init__(**arguments)
        self.reset = reset


class Single(Cell):
    """Decides on an argument itself."""

    @with_arguments_of(Cell.__init__, without=("groups",))
    def __init__(self, **arguments: Any) -> None:
        super().__init__(**{**arguments, "groups": 1})


def test_help_shows_all_arguments_in_their_places() -> None:
    assert str(inspect.signature(Gated)) == (
        "(units: 'int', groups: 'int' = 2, reset: 'bool' = False, "
        "name: 'str' = 'Gated', **kwargs: 'Any') -> 'None'"
    )
    assert list(inspect.signature(Single).parameters) == ["units", "name", "kwargs"]
    assert Gated.__init__.__doc__ == "Make it."
    assert inspect.getfullargspec(Gated.__init__).args == [
        "self",
        "units",
        "groups",
        "reset",
        "name",
    ]


def test_arguments_by_place_and_by_name_reach_the_other_function() -> None:
    gated = Gated(8, 4, True, "gate")
    assert (gated.given, gated.reset) == ((8, 4, "gate", {}), True)
    named = Gated(reset=True, units=8)
    assert (named.given, named.reset) == ((8, 2, "Gated", {}), True)


def test_further_keywords_reach_it_too() -> None:
    assert Gated(8, dtype="half").given == (8, 2, "Gated", {"dtype": "half"})


def test_an_argument_that_is_left_out_is_one_of_the_further_keywords() -> None:
    assert Single(8, "one").given == (8, 1, "one", {})
    assert Single(8, groups=4).given == (8, 1, "Cell", {})


def test_a_method_can_become_a_function_of_its_object() -> None:
    @with_arguments_of(Cell.__init__, without=("self",))
    def cell(model: str, **arguments: Any) -> tuple[str, Any]:
        return model, Cell(**arguments).given

    assert list(inspect.signature(cell).parameters)[:2] == ["model", "units"]
    assert cell("m", 3) == ("m", (3, 2, "Cell", {}))


@pytest.mark.parametrize(
    ("arguments", "keywords", "text"),
    [
        ((), {}, "missing a required argument: 'units'"),
        ((1, 2, True, "a", 5), {}, "too many positional arguments"),
        ((1,), {"units": 2}, "multiple values for argument 'units'"),
    ],
)
def test_wrong_calls_are_errors_of_the_function_itself(
    arguments: tuple[Any, ...], keywords: dict[str, Any], text: str
) -> None:
    with pytest.raises(TypeError) as error:
        Gated(*arguments, **keywords)
    assert str(error.value) == f"Gated.__init__() {text}"
