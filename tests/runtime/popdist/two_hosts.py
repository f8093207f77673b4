"""Two hosts on one machine: network namespaces with a cable between them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

ADDRESSES = ("10.213.77.1", "10.213.77.2")


@contextmanager
def two_hosts() -> Iterator[list[str]]:
    """Make two hosts that reach each other and nobody else; none if that cannot be."""
    names = [f"ipu{os.getpid()}{side}" for side in "ab"]
    if os.geteuid() or shutil.which("ip") is None or not _made(names[0]):
        yield []
        return
    try:
        _ip("netns", "add", names[1])
        ends = [("cable", "netns", name) for name in names]
        _ip("link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1])
        for name, address in zip(names, ADDRESSES, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "cable")
            _ip("-n", name, "link", "set", "cable", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(("ip", "netns", "del", name), capture_output=True)


def _made(name: str) -> bool:
    try:
        _ip("netns", "add", name)
    except subprocess.CalledProcessError:
        return False
    return True


def _ip(*arguments: str) -> None:
    subprocess.run(("ip", *arguments), check=True, capture_output=True, text=True)
