"""The strictness of IPUConfig, and what applying it checks."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ipu_runtime.config import (
    DeviceConnectionType,
    IPUConfig,
    SelectionOrder,
    StochasticRoundingBehaviour,
    changed_fields,
    config_from_fields,
    configure_ipu_system,
    get_ipu_config,
    reset_ipu_configuration,
)
from ipu_runtime.system.device_state import current_state, device_ordinal


@pytest.fixture(autouse=True)
def unconfigured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("TF_POPLAR_FLAGS", raising=False)
    reset_ipu_configuration()
    yield
    reset_ipu_configuration()


def _set(config: IPUConfig, path: str, value: Any) -> None:
    *groups, name = path.split(".")
    target: Any = config
    for group in groups:
        target = getattr(target, group)
    setattr(target, name, value)


def test_unknown_attribute_suggests_the_full_dotted_name() -> None:
    with pytest.raises(ValueError, match=r"io_tiles\.num_io_tiles"):
        IPUConfig().io_tiles.num_io_tile  # noqa: B018


@pytest.mark.parametrize("name", ["no_such_thing", "_private", "allow_recomput"])
def test_setting_an_unknown_attribute_creates_nothing(name: str) -> None:
    config = IPUConfig()
    with pytest.raises(ValueError, match=name):
        setattr(config, name, 1)
    assert name not in config.to_dict()


def test_a_category_cannot_be_assigned() -> None:
    with pytest.raises(Exception, match="experimental") as raised:
        IPUConfig().experimental = 2
    assert type(raised.value) is Exception


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("allow_recompute", 1),
        ("io_tiles.num_io_tiles", True),
        ("io_tiles.num_io_tiles", 1.0),
        ("io_tiles.available_memory_proportion", 1),
        ("selection_order", 0),
        ("selection_order", "AUTO"),
        ("device_connection.type", SelectionOrder.AUTO),
        ("auto_select_ipus", [True]),
        ("auto_select_ipus", "2"),
        ("convolutions.poplar_options", []),
        ("serialization_output_folder", None),
    ],
)
def test_wrong_type_is_refused_and_the_value_stays(path: str, value: Any) -> None:
    config = IPUConfig()
    before = config.to_dict()
    with pytest.raises(TypeError, match=path):
        _set(config, path, value)
    assert config.to_dict() == before


@pytest.mark.parametrize("value", [2, [1, 2], (1, 2)])
def test_ipu_selection_takes_numbers_lists_and_tuples(value: Any) -> None:
    config = IPUConfig()
    config.auto_select_ipus = value
    assert config.auto_select_ipus == value


def test_defaults_and_declaration_order() -> None:
    names = list(IPUConfig().to_dict())
    assert len(names) == 57
    assert names[:8] == [
        "allow_recompute",
        "selection_order",
        "serialization_output_folder",
        "compilation_poplar_options",
        "gcl_poplar_options",
        "auto_select_ipus",
        "select_ipus",
        "convolutions.poplar_options",
    ]
    categories = list(dict.fromkeys(n.split(".")[0] for n in names if "." in n))
    assert categories == [
        "convolutions",
        "device_connection",
        "slices",
        "experimental",
        "floating_point_behaviour",
        "io_tiles",
        "ipu_model",
        "matmuls",
        "norms",
        "optimizations",
        "pooling",
        "scheduling",
    ]


def test_text_forms() -> None:
    config = IPUConfig()
    lines = str(config).splitlines()
    assert lines[0] == "allow_recompute = False"
    assert lines[1] == "selection_order = SelectionOrder.AUTO"
    assert repr(config).splitlines()[:2] == ["IPUConfig:", "  allow_recompute = False"]


def test_deprecated_attribute_is_set_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = IPUConfig()
    with caplog.at_level(logging.WARNING, "tensorflow"):
        config.optimizations.enable_fast_math = True
    assert config.optimizations.enable_fast_math is True
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith(
        "optimizations.enable_fast_math has been deprecated: "
    )


def test_instances_and_copies_are_independent() -> None:
    first, second = IPUConfig(), IPUConfig()
    first.convolutions.poplar_options["partialsType"] = "half"
    clone = copy.deepcopy(first)
    clone.convolutions.poplar_options["partialsType"] = "float"
    assert second.convolutions.poplar_options == {}
    assert first.convolutions.poplar_options == {"partialsType": "half"}
    assert type(clone) is IPUConfig


def test_dictionary_and_json_round_trip(caplog: pytest.LogCaptureFixture) -> None:
    config = IPUConfig()
    config.selection_order = SelectionOrder.SNAKE
    config.floating_point_behaviour.esr = StochasticRoundingBehaviour.ON
    other = IPUConfig()
    other.from_json(config.to_json())
    assert json.loads(config.to_json())["selection_order"] == 2
    assert other.to_dict() == config.to_dict()
    assert other.selection_order is SelectionOrder.SNAKE
    with caplog.at_level(logging.WARNING, "tensorflow"):
        other.from_dict({"selection_order": 0})
    assert other.selection_order is SelectionOrder.AUTO
    assert len(caplog.messages) == 56


def test_metadata_of_attributes_and_categories() -> None:
    config = IPUConfig()
    selection = config.get_attribute_metadata("auto_select_ipus")
    assert selection.type == (
        "typing.Union[int, typing.List[int], typing.Tuple[int, ...]]"
    )
    tiles = config.io_tiles.get_attribute_metadata("num_io_tiles")
    assert (tiles.name, tiles.type, tiles.default) == (
        "io_tiles.num_io_tiles",
        "int",
        0,
    )
    assert tiles.actual_type is int
    assert str(selection.actual_type) == selection.type
    category = config.get_attribute_metadata("io_tiles")
    assert (category.type, category.actual_type, category.default) == (None,) * 3
    with pytest.raises(TypeError):
        tiles.check_type("1")
    with pytest.raises(ValueError, match=r"^Could not get attribute metadata for"):
        config.get_attribute_metadata("nothing")


@pytest.mark.parametrize(
    ("values", "error", "says"),
    [
        ({"auto_select_ipus": 1, "select_ipus": 1}, Exception, "Only one"),
        ({"select_ipus": [1, 1]}, ValueError, "twice"),
        (
            {
                "io_tiles.num_io_tiles": 32,
                "norms.experimental.distributed_batch_norm_replica_group_size": 2,
            },
            ValueError,
            "num_io_tiles",
        ),
        ({"io_tiles.place_ops_on_io_tiles": True}, ValueError, "num_io_tiles"),
        (
            {"device_connection.type": DeviceConnectionType.NEVER},
            ValueError,
            "device_connection.version",
        ),
        (
            {
                "experimental.multi_replica_distribution.process_count": 2,
                "experimental.multi_replica_distribution.process_index": 2,
            },
            ValueError,
            "process_index",
        ),
        (
            {"norms.experimental.distributed_batch_norm_replica_group_size": 0},
            ValueError,
            "at least 1",
        ),
        ({"convolutions.poplar_options": {"a": 1}}, TypeError, "poplar_options"),
    ],
)
def test_applying_refuses(
    values: dict[str, Any], error: type[Exception], says: str
) -> None:
    config = IPUConfig()
    for path, value in values.items():
        _set(config, path, value)
    with pytest.raises(error, match=says) as raised:
        config.configure_ipu_system()
    assert type(raised.value) is error
    assert not current_state().configured


@pytest.mark.parametrize(
    "path",
    ["select_ipus", "experimental.multi_replica_distribution.process_count"],
)
def test_the_ipu_model_refuses(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")
    config = IPUConfig()
    _set(config, path, 2)
    with pytest.raises(Exception, match="IPU Model"):
        config.configure_ipu_system()


def test_the_ipu_model_takes_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")
    config = IPUConfig()
    config.auto_select_ipus = 3
    config.configure_ipu_system()
    assert current_state().ipus("/device:IPU:0") == 3


def test_another_type_of_config_is_refused() -> None:
    with pytest.raises(TypeError, match="IPUConfig"):
        configure_ipu_system({})  # type: ignore[arg-type]


def test_applying_makes_one_device_per_entry_and_lists_of_numbers() -> None:
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    assert config.auto_select_ipus == [2]
    assert current_state().ipus_of_device == (2,)
    assert [item.auto_count for item in get_ipu_config()[0].device_config] == [2]


def test_never_configured_means_one_ipu() -> None:
    assert current_state().ipus() == 1
    with pytest.raises(RuntimeError, match="No IPU devices configured"):
        get_ipu_config()


def test_equal_configuration_is_silent_and_another_one_warns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = IPUConfig()
    config.auto_select_ipus = 1
    with caplog.at_level(logging.WARNING, "tensorflow"):
        config.configure_ipu_system()
        generation = current_state().generation
        config.configure_ipu_system()
        assert current_state().generation == generation
        assert not caplog.messages
        config.auto_select_ipus = 2
        config.configure_ipu_system()
    assert caplog.messages == [
        "Resetting existing IPU configuration before applying new configuration"
    ]
    assert current_state().generation > generation


def test_configuring_over_an_empty_selection_never_warns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = IPUConfig()
    with caplog.at_level(logging.WARNING, "tensorflow"):
        config.configure_ipu_system()
        config.auto_select_ipus = 2
        config.configure_ipu_system()
    assert not caplog.messages


def test_plain_fields_round_trip() -> None:
    fields = {
        "selection_order": "HOOF",
        "auto_select_ipus": [2],
        "allow_recompute": True,
    }
    assert changed_fields(config_from_fields(fields)) == {
        "allow_recompute": True,
        "selection_order": "HOOF",
        "auto_select_ipus": [2],
    }


def test_device_names() -> None:
    assert device_ordinal("/job:localhost/task:0/device:IPU:3") == 3
    with pytest.raises(ValueError, match="/device:IPU:0"):
        device_ordinal("/device:CPU:0")
