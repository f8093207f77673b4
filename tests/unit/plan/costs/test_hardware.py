"""The hardware table agrees with itself and takes additions."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipu_runtime.plan.hardware import (
    HardwareFileError,
    find_system,
    load_table,
    systems,
)

IPUS = sorted(load_table().ipus)
EXCHANGE_TB_S = {"gc2": 7.8, "gc200": 7.8, "bow": 10.9, "c600": 8.7}


@pytest.mark.parametrize("name", IPUS)
def test_matrix_unit_rates_give_the_quoted_peaks(name: str) -> None:
    ipu = load_table().ipus[name]
    per_mac = ipu.tiles * 2 * ipu.clock_hz / 1e12
    assert ipu.macs_fp32 * per_mac == pytest.approx(ipu.fp32_tflops, rel=0.01)
    half = ipu.macs_fp16_partials_fp16 * per_mac
    assert half == pytest.approx(ipu.fp16_tflops, rel=0.01)


@pytest.mark.parametrize("name", IPUS)
def test_exchange_of_all_tiles_gives_the_quoted_total(name: str) -> None:
    ipu = load_table().ipus[name]
    total = ipu.tiles * 4 * ipu.clock_hz / 1e12
    assert total == pytest.approx(EXCHANGE_TB_S[name], rel=0.01)


def test_memory_of_a_chip_is_that_of_its_tiles() -> None:
    assert load_table().ipus["gc2"].memory_bytes == 304 * 2**20
    assert load_table().ipus["gc200"].memory_bytes == 897 * 2**20


def test_every_system_is_a_power_of_two_and_fills_its_machines() -> None:
    for system in systems():
        assert system.ipus & (system.ipus - 1) == 0
        assert system.ipus % system.ipus_per_machine == 0


@pytest.mark.parametrize("name", ["Bow-Pod16", "bow pod16", "BOWPOD16"])
def test_systems_are_found_whatever_the_spelling(name: str) -> None:
    system = find_system(name)
    assert system is not None
    assert system.ipus == 16
    assert system.ipu.name == "bow"


def test_unknown_system_is_none() -> None:
    assert find_system("Pod17") is None


def test_every_constant_states_where_it_comes_from() -> None:
    for constant in load_table().constants.values():
        assert constant.confidence in ("H", "M", "L")
        assert constant.origin


def test_a_file_adds_a_chip_like_another_and_a_system(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(
        '[ipus.half]\nlike = "gc200"\ntiles = 736\n'
        '[systems.Lab]\nipu = "half"\nipus = 2\nipus_per_machine = 2\n'
        "[constants.sigma]\nvalue = 600.0\n"
    )
    lab = find_system("lab", str(path))
    assert lab is not None
    assert (lab.ipu.tiles, lab.ipu.tile_bytes) == (736, 638976)
    assert load_table(str(path)).values["sigma"] == 600
    assert find_system("lab") is None


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[systems.Lab]\nipu = 'gc9'\n", "systems.Lab.ipu"),
        ("[ipus.gc200]\ntiles = 'many'\n", "ipus.gc200.tiles"),
        ("[ipus.new]\ntiles = 5\n", "ipus.new"),
        ("[ipus.gc200]\ntile = 5\n", "ipus.gc200.tile: unknown"),
        ("[chips.a]\n", "chips"),
        ("[ipus\n", "line 1"),
    ],
)
def test_a_bad_file_says_where(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(HardwareFileError, match=r"bad\.toml") as caught:
        load_table(str(path))
    assert part in str(caught.value)
