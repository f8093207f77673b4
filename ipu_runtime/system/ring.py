"""The processes of a job in a ring: each sends to the next, and hears the one before.

What goes around are the bytes of arrays, so that who joins a ring can spoil results,
but run nothing.
"""

from __future__ import annotations

import collections
import os
import socket
import struct
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from ipu_runtime.system.ring_sockets import read_exactly

_HEADER = struct.Struct("<IQ")
"""The key of an exchange, and how many bytes follow."""
_ALIGNMENT = 64
"""Bytes that the parts of a sum are a multiple of, but for the last ones."""

Array = npt.NDArray[Any]


class LostInstanceError(RuntimeError):
    """Another process of the job has ended, or cannot be reached."""


class Ring:
    """Sums and gathers arrays of all processes.

    All processes call for the same exchanges. Those with different keys may be called
    for by different threads, in any order.
    """

    def __init__(
        self, index: int, count: int, previous: socket.socket, following: socket.socket
    ) -> None:
        self._index, self._count = index, count
        self._previous, self._following = previous, following
        self._sending = threading.Lock()
        self._came = collections.defaultdict[int, collections.deque[Array]](
            collections.deque
        )
        self._news = threading.Condition()
        self._lost = False
        # Others would not hear that this process is gone while a copy of it lives.
        os.register_at_fork(after_in_child=self._close)
        threading.Thread(target=self._listen, daemon=True).start()

    def sum(self, key: int, values: Array) -> Array:
        """Return the sum over all processes; each adds up one part of it."""
        flat = values.flatten()
        bounds = _bounds(flat.size, flat.itemsize, self._count)
        parts = [flat[first:last] for first, last in bounds]
        # Part k begins with process k, so that all come to the same order of summands.
        for step in range(self._count - 1):
            self._send(key, self._part(parts, -step))
            part = self._part(parts, -step - 1)
            np.add(self._receive(key).view(part.dtype), part, out=part)
        for step in range(self._count - 1):
            self._send(key, self._part(parts, 1 - step))
            self._part(parts, -step)[:] = self._receive(key).view(flat.dtype)
        return flat.reshape(values.shape)

    def gather(self, key: int, values: Array) -> Array:
        """Return the values of all processes, joined along the first axis."""
        parts = [values] * self._count
        for step in range(self._count - 1):
            self._send(key, self._part(parts, -step))
            came = self._receive(key).view(values.dtype).reshape(values.shape)
            parts[(self._index - step - 1) % self._count] = came
        return np.concatenate(parts)

    def loss(self) -> LostInstanceError:
        """Return what to raise when another process is gone."""
        return LostInstanceError(
            f"Instance {self._index} of {self._count} has lost the connection to "
            "another one, which has ended or cannot be reached; see what that one "
            "wrote last."
        )

    def _part(self, parts: list[Array], offset: int) -> Array:
        return parts[(self._index + offset) % self._count]

    def _send(self, key: int, values: Array) -> None:
        content = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        try:
            with self._sending:
                self._following.sendall(_HEADER.pack(key, content.size))
                self._following.sendall(content.data)
        except OSError as error:
            self._give_up()
            raise self.loss() from error

    def _receive(self, key: int) -> Array:
        with self._news:
            came = self._came[key]
            self._news.wait_for(lambda: came or self._lost)
            if came:
                return came.popleft()
        self._give_up()
        raise self.loss()

    def _listen(self) -> None:
        """Take in all that comes, as who sends may not be kept waiting for a turn."""
        try:
            header = bytearray(_HEADER.size)
            while True:
                read_exactly(self._previous, header)
                key, size = _HEADER.unpack(header)
                content = np.empty(size, np.uint8)
                read_exactly(self._previous, content)
                with self._news:
                    self._came[key].append(content)
                    self._news.notify_all()
        except OSError:
            # It may have ended well, and what it has sent last is still to go around.
            with self._news:
                self._lost = True
                self._news.notify_all()

    def _give_up(self) -> None:
        """Let the next process hear of the loss, and it the one after that."""
        for connection in (self._previous, self._following):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # It is the one that was lost.

    def _close(self) -> None:
        self._previous.close()
        self._following.close()


def _bounds(size: int, itemsize: int, parts: int) -> list[tuple[int, int]]:
    whole = _ALIGNMENT // itemsize
    step = (-(-size // parts) // whole + 1) * whole
    return [(min(k * step, size), min((k + 1) * step, size)) for k in range(parts)]
