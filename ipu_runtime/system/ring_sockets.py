"""How the processes of a job find each other, and know that they belong together."""

from __future__ import annotations

import hmac
import ipaddress
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

SECRET = "IPU_RUNTIME_JOB_SECRET"
"""Known to all processes of a job, and to nobody else."""
NETWORK_ALLOWED = "IPU_RUNTIME_ALLOW_NETWORK"
"""Set where instances may use addresses of the internet."""
UNIX = "unix"
"""What stands before the file of a socket, where others have a host and its port."""

_AGAIN_S = 0.1
_STRANGER_S = 5.0
"""How long somebody who calls may take to say who it is."""
_ANSWER_S = 60.0
"""How long to wait to be asked: strangers may have to be heard before."""
_NONCE_BYTES = 32
_KEPT_ALIVE = {
    socket.TCP_NODELAY: 1,
    socket.TCP_KEEPIDLE: 5,
    socket.TCP_KEEPINTVL: 5,
    socket.TCP_KEEPCNT: 3,
    socket.TCP_USER_TIMEOUT: 20_000,
}
"""A cut cable is noticed after 20 s, whether anything was to be sent or not."""


class PublicAddressError(ValueError):
    """Instances would be reachable from the internet."""


def neighbours(
    index: int, addresses: Sequence[str], secret: bytes
) -> tuple[socket.socket, socket.socket]:
    """Connect to the process before this one and to the next; wait until both are.

    Nobody listens any more when that is done. Each proves to the other that it knows
    the secret, and which of the two it is.
    """
    count = len(addresses)
    before, after = (index - 1) % count, (index + 1) % count
    with _listening(addresses[index]) as listener:
        # One begins: if all of them called first, nobody would answer.
        if index == 0:
            following = _called(addresses[after], f"{index}>{after}", secret)
        previous = _caller(listener, f"{before}>{index}", secret)
        if index:
            following = _called(addresses[after], f"{index}>{after}", secret)
    return previous, following


def refuse_public(addresses: Sequence[str], allowed: bool) -> None:
    """Raise if all the world may reach one of the addresses, unless that is allowed."""
    for address in () if allowed else addresses:
        with suppress(OSError):  # A name that nobody knows is nobody's address.
            family, place = _place(address)
            if family != socket.AF_UNIX and is_public(place[0]):
                raise PublicAddressError(
                    f"{address} is a public address, and what instances tell each "
                    "other is not encrypted: give addresses of a private network, or "
                    f"allow it with poprun --allow-network, or {NETWORK_ALLOWED}=1"
                )


def is_public(host: str) -> bool:
    """Tell whether an address is one of the internet, or stands for all of them."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    return address.is_global or address.is_unspecified


def read_exactly(connection: socket.socket, content: Any) -> None:
    """Fill a buffer with what comes; raise OSError if the connection ends before."""
    left = memoryview(content)
    while left:
        count = connection.recv_into(left)
        if not count:
            raise ConnectionResetError
        left = left[count:]


@contextmanager
def _listening(address: str) -> Iterator[socket.socket]:
    family, place = _place(address)
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            with _named(family, place) as name:
                listener.bind(name)
        except OSError as error:
            raise RuntimeError(f"Cannot listen at {address}: {error}") from error
        try:
            listener.listen()
            yield listener
        finally:
            if family == socket.AF_UNIX:
                os.unlink(place)


def _caller(listener: socket.socket, link: str, secret: bytes) -> socket.socket:
    """Return the connection of the first who calls and proves to be the right one."""
    while True:
        with suppress(OSError), ExitStack() as opened:
            connection = opened.enter_context(listener.accept()[0])
            connection.settimeout(_STRANGER_S)
            if _is_proved(connection, f"{link} called", f"{link} calls", secret):
                opened.pop_all()
                return _ready(connection)


def _called(address: str, link: str, secret: bytes) -> socket.socket:
    """Return a connection to who listens at an address, as soon as anybody does."""
    while True:
        with suppress(OSError), ExitStack() as opened:
            family, place = _place(address)
            connection = opened.enter_context(socket.socket(family))
            connection.settimeout(_ANSWER_S)
            with _named(family, place) as name:
                connection.connect(name)
            if _is_proved(connection, f"{link} calls", f"{link} called", secret):
                opened.pop_all()
                return _ready(connection)
            raise RuntimeError(
                f"Who listens at {address} is no instance of this job: it has another "
                f"{SECRET}."
            )
        time.sleep(_AGAIN_S)


def _is_proved(connection: socket.socket, own: str, other: str, secret: bytes) -> bool:
    """Prove to know the secret without telling it, and have the other do so too."""
    mine, theirs = os.urandom(_NONCE_BYTES), bytearray(_NONCE_BYTES)
    connection.sendall(mine)
    read_exactly(connection, theirs)
    connection.sendall(hmac.digest(secret, own.encode() + mine + theirs, "sha256"))
    expected = hmac.digest(secret, other.encode() + theirs + mine, "sha256")
    proof = bytearray(len(expected))
    read_exactly(connection, proof)
    return hmac.compare_digest(proof, expected)


def _ready(connection: socket.socket) -> socket.socket:
    connection.settimeout(None)
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEPT_ALIVE.items():
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
    return connection


def _place(address: str) -> tuple[socket.AddressFamily, Any]:
    """Return what sockets call an address."""
    host, _, port = address.rpartition(":")
    if host == UNIX:
        return socket.AF_UNIX, port
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    return found[0][0], found[0][4]


@contextmanager
def _named(family: socket.AddressFamily, place: Any) -> Iterator[Any]:
    """Give a socket's file a name that is short enough: there is room for 107 bytes."""
    if family != socket.AF_UNIX:
        yield place
        return
    folder, name = os.path.split(place)
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}/{name}"
    finally:
        os.close(opened)
