"""Moving layers between stages."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from workbench.editing.stage_moves import (
    Stages,
    add_stage,
    move_block,
    move_cut,
    remove_stage,
)

NAMES = list("abcdefghijkl")
stage_lists = st.lists(st.booleans(), min_size=1, max_size=11).map(
    lambda cuts: tuple(sum(cuts[:index]) for index in range(len(cuts) + 1))
)


def is_legal(stages: Stages) -> bool:
    """Tell whether stages are in order and none is empty."""
    steps = [later - earlier for earlier, later in itertools.pairwise(stages)]
    return stages[0] == 0 and all(step in (0, 1) for step in steps)


def test_layer_at_the_cut_moves_alone() -> None:
    move = move_block((0, 0, 1, 1), "b", 1, 1, 1)
    assert move.stages == (0, 1, 1, 1)
    assert move.text == "b moved to stage 1"


def test_layer_in_the_middle_takes_its_neighbours_along() -> None:
    move = move_block((0, 0, 0, 1), "b", 1, 1, 1)
    assert move.stages == (0, 1, 1, 1)
    assert move.text == "b and 1 layer with it moved to stage 1"


def test_stage_is_never_emptied() -> None:
    move = move_block((0, 1, 2), "b", 1, 1, 1)
    assert not move.done
    assert "stage 1 would be empty" in move.text


def test_cut_moves_by_one_layer() -> None:
    assert move_cut((0, 0, 1, 1), NAMES, 0, -1).stages == (0, 1, 1, 1)
    assert move_cut((0, 0, 1, 1), NAMES, 3, 1).stages == (0, 0, 0, 1)


def test_longest_stage_is_cut_where_its_work_halves() -> None:
    assert add_stage((0, 0, 0, 1), [5.0, 1.0, 4.0, 3.0]).stages == (0, 1, 1, 2)


def test_stages_of_one_layer_cannot_be_cut() -> None:
    assert not add_stage((0, 1, 2), [1.0, 1.0, 1.0]).done


def test_neighbours_with_the_least_work_are_joined() -> None:
    assert remove_stage((0, 1, 2, 3), [5.0, 1.0, 2.0, 3.0]).stages == (0, 1, 1, 2)
    assert remove_stage((0, 1, 2), [1.0, 1.0, 2.0]).stages == (0, 0, 1)
    assert remove_stage((0, 1), [1.0, 1.0]).text == "no pipeline any more"
    assert not remove_stage((0, 0), [1.0, 1.0]).done


@given(stage_lists, st.data())
def test_moves_keep_the_assignment_legal(stages: Stages, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(stages) - 1))
    step = data.draw(st.sampled_from([-1, 1]))
    weights = [float(position % 3) for position in range(len(stages))]
    for move in (
        move_block(stages, NAMES[index], index, index, step),
        move_cut(stages, NAMES, index, step),
        add_stage(stages, weights),
        remove_stage(stages, weights),
    ):
        assert is_legal(move.stages)
        assert move.done == (move.stages != stages)
        assert move.text
