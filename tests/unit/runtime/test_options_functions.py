"""Configuration by functions, as SDK 1.4 has it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ipu_runtime import utils
from ipu_runtime.config import reset_ipu_configuration


@pytest.fixture(autouse=True)
def _clean_system() -> Iterator[None]:
    reset_ipu_configuration()
    yield
    reset_ipu_configuration()


def test_options_are_changed_and_returned() -> None:
    options = utils.create_ipu_config()
    assert utils.auto_select_ipus(options, 2) is options
    assert options.device_config[0].auto_count == 2


def test_applied_options_configure_the_device() -> None:
    options = utils.auto_select_ipus(utils.create_ipu_config(), [4, 2])
    utils.configure_ipu_system(options)
    assert utils.get_num_of_ipus_in_device("/device:IPU:0") == 4
    assert utils.get_num_of_ipus_in_device("/device:IPU:1") == 2


def test_selecting_twice_is_refused() -> None:
    options = utils.auto_select_ipus(utils.create_ipu_config(), 1)
    with pytest.raises(Exception, match="already been selected"):
        utils.select_ipus(options, [0])


@pytest.mark.parametrize(
    "arguments",
    [
        {"profiling": True, "enable_ipu_events": True},
        {"retain_control_dependencies": True},
        {"profile_execution": True},
        {"profiling": True, "profile_execution": 3},
    ],
)
def test_contradictions_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(Exception, match=r".+"):
        utils.create_ipu_config(**arguments)  # type: ignore[arg-type]


def test_execution_profile_true_means_device_profile() -> None:
    options = utils.create_ipu_config(profiling=True, profile_execution=True)
    assert options.event_trace
    assert options.profile_execution


def test_setters_store_fields_of_the_configuration_tree() -> None:
    options = utils.create_ipu_config(selection_order=utils.SelectionOrder.ZIGZAG)
    utils.set_matmul_options(options, {"partialsType": "half"})
    utils.set_recomputation_options(options)
    utils.set_io_tile_options(options, 32, True)
    assert options.fields["selection_order"] == "ZIGZAG"
    assert options.fields["matmuls.poplar_options"] == {"partialsType": "half"}
    assert options.fields["allow_recompute"] is True
    assert options.fields["io_tiles.num_io_tiles"] == 32


def test_a_default_leaves_nothing_behind() -> None:
    options = utils.create_ipu_config()
    utils.set_recomputation_options(options, True)
    utils.set_recomputation_options(options, False)
    assert "allow_recompute" not in options.fields


def test_wrong_values_are_refused_at_once() -> None:
    with pytest.raises(TypeError, match="num_io_tiles"):
        utils.set_io_tile_options(utils.create_ipu_config(), "many")  # type: ignore[arg-type]


def test_anything_else_cannot_be_configured() -> None:
    with pytest.raises(Exception, match="create_ipu_config"):
        utils.configure_ipu_system({"auto_select_ipus": 1})  # type: ignore[arg-type]


def test_event_texts_come_from_events() -> None:
    events = [
        '{"time": 0, "kind": "compile end", "module": "train", "data": {"a": 1}}',
        '{"time": 1, "kind": "execute", "module": "train", "data": {}}',
    ]
    text = utils.extract_all_strings_from_event_trace(events)
    assert text.count("-" * 70) == 2
    assert utils.extract_compile_reports(events)[0][0] == "train"
    assert utils.extract_execute_reports(events) == []


def test_verified_transfers_are_refused_by_name() -> None:
    options = utils.create_ipu_config()
    assert utils.set_transfer_options(options) is options
    with pytest.raises(NotImplementedError, match="use_verified_transfers is not"):
        utils.set_transfer_options(options, use_verified_transfers=True)
    with pytest.raises(NotImplementedError, match="VerificationOptions is not"):
        utils.VerificationOptions()
    with pytest.raises(NotImplementedError, match="set_verification_options is not"):
        utils.set_verification_options(options, None)


def test_a_trace_has_no_graphs_of_poplar_and_no_numbers_of_events() -> None:
    assert utils.extract_poplar_serialized_graphs([]) == []
    with pytest.raises(NotImplementedError, match="extract_all_events"):
        utils.extract_all_types_from_event_trace([])
