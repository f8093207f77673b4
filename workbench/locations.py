"""Where files of the user live, decided in one place."""

from __future__ import annotations

import os
from pathlib import Path

_APP = "ipu-workbench"


class NoHomeError(Exception):
    """The user has no directory of their own; the text says what to do."""


def _base(xdg_variable: str, fallback: str) -> Path:
    home = os.environ.get("IPU_WORKBENCH_HOME")
    if home:
        return Path(os.path.expanduser(home)).absolute()
    xdg = os.environ.get(xdg_variable, "")
    # The XDG specification says that a relative path is to be ignored.
    root = Path(xdg) if os.path.isabs(xdg) else _home() / fallback
    return root / _APP


def _home() -> Path:
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise NoHomeError(
            "there is no home directory to keep files in: set HOME, or choose a "
            "directory with IPU_WORKBENCH_HOME"
        )
    return Path(home)


def data_directory() -> Path:
    """Return the directory of everything that runs leave behind."""
    return _base("XDG_DATA_HOME", ".local/share")


def config_directory() -> Path:
    """Return the directory of what the user has set up."""
    return _base("XDG_CONFIG_HOME", ".config")


def trust_directory() -> Path:
    """Return the directory of what the user trusts to run.

    IPU_WORKBENCH_HOME does not lead there: it may be a directory of somebody else's.
    """
    xdg = os.environ.get("XDG_STATE_HOME", "")
    root = Path(xdg) if os.path.isabs(xdg) else _home() / ".local/state"
    return root / _APP / "trusted"


def runs_directory() -> Path:
    """Return the directory that holds one directory per run."""
    return data_directory() / "runs"


def sweeps_directory() -> Path:
    """Return the directory that holds one directory per sweep."""
    return data_directory() / "sweeps"


def drafts_directory() -> Path:
    """Return the directory of changes that were never saved."""
    return data_directory() / "drafts"


def waiting_directory() -> Path:
    """Return the directory of runs whose turn has not come."""
    return data_directory() / "waiting"


def user_presets_directory() -> Path:
    """Return the directory of presets that the user has saved."""
    return config_directory() / "presets"


def settings_file() -> Path:
    """Return the file of the user's settings; it need not exist."""
    return config_directory() / "settings.toml"


def hardware_file() -> str:
    """Return the file that adds to the hardware table; empty means none."""
    return os.environ.get("IPU_WORKBENCH_HARDWARE", "")


def models_cache_directory() -> Path:
    """Return the directory of what was read from models; it can be deleted."""
    return _base("XDG_CACHE_HOME", ".cache") / "models"
