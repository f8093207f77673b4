"""The ring that carries arrays between instances, and who gets into it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu_runtime.popdist.launched_job import cluster_environments, free_address
from ipu_runtime.system import ring_sockets
from ipu_runtime.system.cluster import join
from ipu_runtime.system.ring import Array, LostInstanceError, Ring
from ipu_runtime.system.ring_sockets import (
    NETWORK_ALLOWED,
    PublicAddressError,
    neighbours,
    refuse_public,
)

SECRET = b"of this job alone"


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """A thread for each process."""
    with ThreadPoolExecutor(8) as threads:
        yield threads


def _unix(folder: Path, count: int) -> list[str]:
    return [f"unix:{folder}/{index}" for index in range(count)]


def _joined(
    pool: ThreadPoolExecutor, addresses: Sequence[str], secret: bytes = SECRET
) -> list[Future[tuple[socket.socket, socket.socket]]]:
    return [
        pool.submit(neighbours, index, addresses, secret)
        for index in range(len(addresses))
    ]


def _rings(pool: ThreadPoolExecutor, addresses: Sequence[str]) -> list[Ring]:
    return [
        Ring(index, len(addresses), *found.result(30))
        for index, found in enumerate(_joined(pool, addresses))
    ]


def _all(pool: ThreadPoolExecutor, work: Callable[[int], Any], count: int) -> list[Any]:
    return [done.result(30) for done in [pool.submit(work, k) for k in range(count)]]


def _values(index: int, size: int, dtype: str) -> Array:
    draws = np.random.default_rng([index, size])
    return (100 * draws.standard_normal(size)).astype(dtype)


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32"])
def test_sums_have_one_order_of_summands_everywhere(
    count: int, dtype: str, pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    rings = _rings(pool, _unix(tmp_path, count))
    for size in (1, 7, 64, 1023, 100_003):
        own = [_values(index, size, dtype) for index in range(count)]
        sums = _all(pool, lambda k, own=own: rings[k].sum(1, own[k]), count)
        for other in sums[1:]:
            np.testing.assert_array_equal(other, sums[0])
        # The part that process k begins is added up from there on, around the ring.
        chains = []
        for first in range(count):
            total = own[first]
            for step in range(1, count):
                total = total + own[(first + step) % count]
            chains.append(total == sums[0])
        assert np.all(np.any(chains, axis=0))
        assert chains[0][0]


def test_parts_of_a_sum_are_those_of_tensorflow(
    pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    # 64 numbers of 4 bytes for four processes: 32, 32, 0 and 0. Told by rounding.
    rings = _rings(pool, _unix(tmp_path, 4))
    own = np.array([1e8, 1.0, -1e8, 1.0], np.float32)
    sums = _all(pool, lambda k: rings[k].sum(1, np.full(64, own[k])), 4)
    begun_by = {0: ((own[0] + own[1]) + own[2]) + own[3]}
    begun_by[1] = ((own[1] + own[2]) + own[3]) + own[0]
    expected = np.repeat([begun_by[0], begun_by[1]], 32)
    for total in sums:
        np.testing.assert_array_equal(total, expected)


def test_values_of_all_are_joined(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    rings = _rings(pool, _unix(tmp_path, 3))
    gathered = _all(pool, lambda k: rings[k].gather(1, np.array([[k, -k]])), 3)
    for rows in gathered:
        assert rows.tolist() == [[0, 0], [1, -1], [2, -2]]


def test_exchanges_may_come_in_any_order(
    pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    first, second = _rings(pool, _unix(tmp_path, 2))
    big = np.ones(1_000_000, np.float32)
    late = [pool.submit(first.sum, key, key * big) for key in (1, 2)]
    sums = [second.sum(key, key * big)[-1] for key in (2, 1)]
    assert sums == [4, 2]
    assert [done.result(30)[-1] for done in late] == [2, 4]


def test_all_hear_of_one_that_is_lost(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    first, second, third, fourth = _rings(pool, _unix(tmp_path, 4))
    waiting = [pool.submit(one.sum, 1, np.ones(3)) for one in (first, second, third)]
    for connection in (fourth._previous, fourth._following):
        connection.shutdown(socket.SHUT_RDWR)
    for index, one in enumerate(waiting):
        with pytest.raises(LostInstanceError, match=f"Instance {index} of 4 has lost"):
            one.result(30)


def test_one_that_is_done_may_leave_before_others_are(
    pool: ThreadPoolExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = _rings(pool, _unix(tmp_path, 3))
    sent, send = [], first._send

    def send_late(key: int, values: Array) -> None:
        sent.append(key)
        # Its last: the third has all it needs by then, and only the second waits.
        if len(sent) == 4:
            assert done[1].result(30).tolist() == [3]
            others[1]._following.shutdown(socket.SHUT_RDWR)
            with first._news:
                assert first._news.wait_for(lambda: first._lost, timeout=30)
        send(key, values)

    monkeypatch.setattr(first, "_send", send_late)
    done = [pool.submit(one.sum, 1, np.ones(1)) for one in others]
    assert first.sum(1, np.ones(1)).tolist() == [3]
    assert done[0].result(30).tolist() == [3]


def test_nobody_listens_once_all_are_connected(
    pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    deep = tmp_path.joinpath(*["a directory with a long name"] * 6)
    deep.mkdir(parents=True)
    _rings(pool, _unix(deep, 2))
    assert list(deep.iterdir()) == []
    addresses = [free_address("127.0.0.1") for _ in range(2)]
    _rings(pool, addresses)
    for address in addresses:
        host, port = address.split(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))


STRANGERS = {
    "says nothing": b"",
    "hangs up at once": None,
    "speaks to TensorFlow": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".ljust(200, b"\0"),
    "guesses": bytes(64),
}


@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_stranger_gets_nowhere(
    stranger: str, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ring_sockets, "_STRANGER_S", 0.2)
    addresses = [free_address("127.0.0.1") for _ in range(2)]
    second = pool.submit(neighbours, 1, addresses, SECRET)
    connection = _reached(addresses[1])
    says = STRANGERS[stranger]
    if says is None:
        connection.close()
    else:
        connection.sendall(says)
    first = pool.submit(neighbours, 0, addresses, SECRET)
    rings = [Ring(k, 2, *found.result(30)) for k, found in enumerate((first, second))]
    sums = _all(pool, lambda k: rings[k].sum(1, np.array([k + 1])), 2)
    assert [total.tolist() for total in sums] == [[3], [3]]
    connection.close()


def _reached(address: str) -> socket.socket:
    """Connect as soon as somebody listens: nobody else tells."""
    host, port = address.split(":")
    while True:
        try:
            return socket.create_connection((host, int(port)))
        except ConnectionRefusedError:
            threading.Event().wait(0.01)


def test_another_secret_is_named(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    addresses = _unix(tmp_path, 2)
    second = pool.submit(neighbours, 1, addresses, b"that of another job")
    with pytest.raises(RuntimeError, match="another IPU_RUNTIME_JOB_SECRET"):
        neighbours(0, addresses, SECRET)
    # It still waits for the right one.
    assert not second.done()
    neighbours_of_it = pool.submit(neighbours, 0, addresses, b"that of another job")
    assert second.result(30)
    assert neighbours_of_it.result(30)


def test_an_address_that_is_not_ours_is_named() -> None:
    addresses = ["192.0.2.77:4000", "192.0.2.78:4000"]
    with pytest.raises(RuntimeError, match=r"Cannot listen at 192\.0\.2\.77:4000"):
        neighbours(0, addresses, SECRET)


@pytest.mark.parametrize(
    "address",
    [
        *("8.8.8.8:4000", "[2600::1]:4000", "[::ffff:8.8.8.8]:4000"),
        *("0.0.0.0:4000", "[::]:4000", "[::ffff:0.0.0.0]:4000"),
    ],
)
def test_public_addresses_are_refused_unless_allowed(address: str) -> None:
    addresses = ["10.0.0.1:4000", address]
    with pytest.raises(PublicAddressError, match="is a public address") as refused:
        cluster_environments(addresses)
    assert str(refused.value).startswith(address)
    assert "--allow-network" in str(refused.value)
    assert NETWORK_ALLOWED in cluster_environments(addresses, network_allowed=True)[0]


@pytest.mark.parametrize(
    "address", ["10.0.0.1:1", "[fd00::1]:1", "127.0.0.1:1", "unix:/tmp/x/0"]
)
def test_private_addresses_need_no_permission(address: str) -> None:
    refuse_public([address], allowed=False)
    first, second = cluster_environments([address, address])
    assert first["IPU_RUNTIME_JOB_SECRET"] == second["IPU_RUNTIME_JOB_SECRET"]
    assert NETWORK_ALLOWED not in first


def test_a_copy_of_a_process_does_not_hold_connections(
    pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    first, second = _rings(pool, _unix(tmp_path, 2))
    child = os.fork()
    if not child:
        # The copies are closed by now, or the parent waits for ever.
        threading.Event().wait(120)
        os._exit(0)
    try:
        second._close()
        with pytest.raises(LostInstanceError):
            first.sum(1, np.ones(3))
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_instances_without_a_secret_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = cluster_environments(["127.0.0.1:1", "127.0.0.1:2"])[0]
    monkeypatch.setenv("TF_CONFIG", environment["TF_CONFIG"])
    for secret in ("", "short"):
        monkeypatch.setenv("IPU_RUNTIME_JOB_SECRET", secret)
        with pytest.raises(RuntimeError, match="IPU_RUNTIME_JOB_SECRET must have"):
            join()
