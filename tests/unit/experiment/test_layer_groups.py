"""Blocks of a model by the names of its layers."""

from __future__ import annotations

import pytest

from workbench.editing.draft import Draft
from workbench.editing.layer_groups import layer_groups
from workbench.experiment.preset_store import load_preset


def test_numbered_blocks_of_a_preset_are_found() -> None:
    names = [layer.name for layer in Draft(load_preset("bert-large-pod16")).layers]
    groups = layer_groups(names)
    assert [group.name for group in groups] == [f"encoder_{n}" for n in range(1, 25)]
    assert {group.size for group in groups} == {7}
    assert names[groups[2].first] == "encoder_3_attention"


def test_blocks_lie_inside_blocks() -> None:
    names = [layer.name for layer in Draft(load_preset("resnet50-pod16")).layers]
    groups = {group.name: group for group in layer_groups(names)}
    assert [name for name in groups] == ["stem", "conv2", "conv3", "conv4", "conv5"]
    inner = groups["conv2"].inner
    assert [group.name for group in inner] == [
        "conv2_1",
        "conv2_more_1",
        "conv2_more_2",
    ]
    assert sum(group.size for group in inner) == groups["conv2"].size


def test_parts_of_a_users_model_are_blocks() -> None:
    names = [
        "in",
        "encoder/dense",
        "encoder/relu",
        "head_norm",
        "head_dense",
        "head_out",
    ]
    assert [(g.name, g.first, g.last) for g in layer_groups(names)] == [
        ("encoder", 1, 2),
        ("head", 3, 5),
    ]


@pytest.mark.parametrize(
    "names",
    [
        ["conv2d", "conv2d_1", "conv2d_2", "max_pooling2d", "max_pooling2d_1"],
        ["batch_normalization", "batch_normalization_1", "batch_normalization_2"],
        ["dense_1", "dense_2", "dense_3", "embedding", "embedding_norm"],
        ["block_1_conv", "block_1_norm"],
    ],
)
def test_names_that_keras_gives_make_no_block(names: list[str]) -> None:
    assert layer_groups(names) == ()
