"""What must not be loaded: TensorFlow takes seconds, Textual needs a terminal."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import workbench
import workbench.headless

pytestmark = pytest.mark.slow

HEAVY = ("tensorflow", "keras", "h5py")
EXTRAS = ("ray",)
_BACKENDS = "workbench.backends."


def _modules(package: object, prefix: str) -> list[str]:
    found = pkgutil.walk_packages(package.__path__, prefix)  # type: ignore[attr-defined]
    return sorted(item.name for item in found if not item.name.startswith(_BACKENDS))


def _loaded(code: str, home: Path, *names: str) -> set[str]:
    """Return which of the named packages a fresh process has loaded after the code."""
    listing = f"\nimport sys as _s\n_n = {names!r}\n"
    listing += "print('LOADED', *[n for n in _n if n in _s.modules], file=_s.stderr)"
    process = subprocess.run(
        [sys.executable, "-c", code + listing],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "IPU_WORKBENCH_HOME": str(home)},
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return set(process.stderr.splitlines()[-1].split()[1:])


def _command(*arguments: str) -> str:
    return (
        "import sys\n"
        f"sys.argv = ['ipu-workbench', *{list(arguments)!r}]\n"
        "from workbench.__main__ import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as left:\n"
        "    assert not left.code, left.code\n"
    )


def test_the_app_draws_its_first_frame_without_tensorflow_and_numpy(
    tmp_path: Path,
) -> None:
    names = (*HEAVY, *EXTRAS, "numpy")
    assert _loaded("import workbench.ui.app", tmp_path, *names) == set()


def test_the_plan_loads_neither_tensorflow_nor_textual(tmp_path: Path) -> None:
    code = (
        "import importlib, pkgutil, ipu_runtime.plan as p\n"
        "for m in pkgutil.walk_packages(p.__path__, 'ipu_runtime.plan.'):\n"
        "    importlib.import_module(m.name)\n"
        "import ipu_runtime.config"
    )
    assert _loaded(code, tmp_path, *HEAVY, "textual") == set()


def test_a_script_with_a_loop_loads_a_hundred_of_our_modules_at_most(
    tmp_path: Path,
) -> None:
    code = (
        "import sys, ipu_runtime.loops\n"
        "ours = [name for name in sys.modules if name.startswith('ipu_runtime')]\n"
        "assert len(ours) <= 100, len(ours)"
    )
    assert _loaded(code, tmp_path, "ipu_runtime.plan.planner", "textual") == set()


def test_a_loop_loads_at_most_a_hundred_modules_of_ours(tmp_path: Path) -> None:
    code = (
        "import sys, ipu_runtime.loops\n"
        "ours = [n for n in sys.modules if n.partition('.')[0] == 'ipu_runtime']\n"
        "assert len(ours) <= 100, len(ours)"
    )
    assert _loaded(code, tmp_path, "textual") == set()


def test_core_and_commands_load_neither_tensorflow_nor_textual(tmp_path: Path) -> None:
    everything = _modules(workbench, "workbench.")
    of_the_app = ("workbench.ui", "workbench.views.content")
    modules = [name for name in everything if not name.startswith(of_the_app)]
    code = "import importlib\nfor m in " + repr(modules) + ":\n    importlib."
    names = (*HEAVY, *EXTRAS, "textual")
    assert _loaded(f"{code}import_module(m)", tmp_path, *names) == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("presets", "list"),
        ("presets", "show", "mnist-ipu"),
        ("presets", "validate", "mnist-ipu-pipelined"),
        ("plan", "mnist-ipu-pipelined"),
        ("balance", "mnist-ipu-pipelined", "--stages", "2"),
        ("runs", "list"),
        ("run", "--help"),
        ("sweep", "--help"),
        ("cluster", "status", "--help"),
        ("validate",),
    ],
    ids=" ".join,
)
def test_command_loads_neither_tensorflow_nor_textual(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    names = (*HEAVY, *EXTRAS, "textual")
    loaded = _loaded(_command(*arguments), tmp_path, *names, "numpy.ma")
    # Masked arrays take as long to load as a plan; balancing needs sets of rows.
    assert loaded <= ({"numpy.ma"} if "balance" in arguments else set())


@pytest.mark.parametrize("arguments", [("runs",), ("runs", "list", "--json")])
def test_a_list_of_runs_loads_no_planner(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    names = ("numpy", "ipu_runtime.plan.planner", "workbench.charts.plotting")
    assert _loaded(_command(*arguments), tmp_path, *names) == set()
