"""Where work is done: in processes of this machine, or by a Ray cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass

WAIT_S = 300.0
FORMS = "local, ray, auto or ray://HOST:PORT"
NEEDS_EXTRA = "Ray is not installed: pip install 'ipu-workbench[cluster]'"
_CLIENT = re.compile(r"ray://[^\s/:]+:\d{1,5}|ray://\[[0-9A-Fa-f:]+\]:\d{1,5}")


class ClusterError(Exception):
    """There is no cluster, or it cannot do what is asked; the text is for users."""


@dataclass(frozen=True, slots=True)
class Place:
    """What `--on` says."""

    text: str
    network_allowed: bool = False
    """Whether machines may have addresses of the internet."""
    wait_s: float = WAIT_S
    """How long to wait for machines that are not there, or have too little room."""

    @property
    def is_here(self) -> bool:
        """Whether all is done by this machine, without Ray."""
        return self.text == "local"

    @property
    def shares_files(self) -> bool:
        """Whether workers see the files of this machine under the same names."""
        return self.text in ("local", "ray")


def parse_place(text: str) -> Place:
    """Return the place that a text names."""
    if text not in ("local", "ray", "auto") and not _CLIENT.fullmatch(text):
        raise ValueError(f"{text!r} is no place; valid: {FORMS}")
    return Place(text)
