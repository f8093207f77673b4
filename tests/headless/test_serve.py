"""`serve`: only the user's own page drives the app, and apps end with their page."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from tests.headless.test_report_in_browser import CHROMIUM, FLAGS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="children are read from /proc"),
]


@dataclass(frozen=True)
class Served:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    address: str
    log: Path

    @property
    def origin(self) -> str:
        return self.address.rsplit("/", 2)[0]

    @property
    def socket(self) -> str:
        return self.address.replace("http:", "ws:") + "ws?width=80&height=24"

    def apps(self) -> list[int]:
        number = self.process.pid
        return [
            int(child)
            for child in Path(f"/proc/{number}/task/{number}/children")
            .read_text()
            .split()
        ]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "workbench", "serve", "--port", str(port)],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "IPU_WORKBENCH_HOME": str(tmp_path), "COLUMNS": "200"},
        )
    assert process.stderr is not None
    found = re.search(r"http://\S+", process.stderr.readline())
    assert found is not None
    try:
        yield Served(process, found[0], log)
    finally:
        process.kill()
        process.wait()


async def _status(url: str, **headers: str) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers) as response,
    ):
        return response.status


async def test_only_the_own_page_is_answered(served: Served) -> None:
    assert await _status(served.address) == 200
    assert await _status(served.origin + "/") == 404
    assert await _status(served.origin + "/guessed/") == 404
    assert await _status(served.address, Host="evil.example") == 403
    # Its own page would load nothing there: that is another origin to a browser.
    port = served.origin.rsplit(":", 1)[1]
    assert await _status(served.address, Host=f"localhost:{port}") == 403
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        assert await _status(served.address, Origin=origin) == 403
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                await session.ws_connect(served.socket, origin=origin)
    assert served.apps() == []


async def test_the_page_loads_nothing_from_elsewhere_and_is_not_framed(
    served: Served,
) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.get(served.address) as response,
    ):
        policy = response.headers["Content-Security-Policy"]
        text = await response.text()
        missing = await session.get(served.origin)
        assert missing.headers["Content-Security-Policy"] == policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src 'self';" in policy
    hosts = set(re.findall(r"https?://[^/\"]+", text))
    assert hosts == {served.origin}


@pytest.mark.parametrize(
    "message",
    [
        "{",
        "[" * 200_000,
        '["resize", {"width": "x", "height": 1}]',
        '["resize", {"width": 1e999, "height": 1}]',
        '["stdin", 1]',
        b"binary",
        f'["stdin", "{"x" * (1 << 20)}"]',
    ],
    ids=lambda message: str(message[:40]),
)
async def test_a_malformed_message_closes_the_connection(
    served: Served, message: str | bytes
) -> None:
    async with aiohttp.ClientSession() as session:
        page = await session.ws_connect(served.socket, origin=served.origin)
        send = page.send_str if isinstance(message, str) else page.send_bytes
        await send(message)  # type: ignore[operator]
        kinds = [item.type async for item in page]
    assert set(kinds) <= {aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT}
    for app in served.apps():
        assert await _gone(app)
    (line,) = served.log.read_text().splitlines()
    assert "closed a connection: " in line


async def test_a_malformed_request_is_one_line_too(served: Served) -> None:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", int(served.origin.rsplit(":", 1)[1])
    )
    writer.write(b"GET /\xff HTTP/1.1\r\n\r\n")
    assert b"400 Bad Request" in await reader.readline()
    writer.close()
    (line,) = served.log.read_text().splitlines()
    assert "closed a connection: Invalid char in url path" in line


async def _ends(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(), 30) == b""
    except ConnectionResetError:
        return True


async def test_unfinished_requests_end_and_keep_nobody_out(served: Served) -> None:
    port = int(served.origin.rsplit(":", 1)[1])
    beginnings = (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n")
    open_ones = []
    for number in range(200):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(beginnings[number % 3])
        open_ones.append((reader, writer))
    async with aiohttp.ClientSession() as session:
        page = await session.ws_connect(served.socket, origin=served.origin)
        assert (await page.receive()).type is aiohttp.WSMsgType.BINARY
        files = list(Path(f"/proc/{served.process.pid}/fd").iterdir())
        assert len(files) < 120
        # They neither stay for ever, nor do they take the page with them.
        assert all(await asyncio.gather(*(_ends(reader) for reader, _ in open_ones)))
        assert await _status(served.address) == 200
        await page.send_str('["ping", "x"]')
        while (answer := await page.receive()).type is not aiohttp.WSMsgType.TEXT:
            assert answer.type is aiohttp.WSMsgType.BINARY
    for _, writer in open_ones:
        writer.close()


async def _connected(served: Served, session: aiohttp.ClientSession) -> int:
    """Open a page; return the process of its app once it has drawn."""
    huge = served.socket.replace("height=24", "height=999999999")
    page = await session.ws_connect(huge, origin=served.origin)
    await page.send_str('["resize", {"width": 999999999, "height": 999999999}]')
    assert (await page.receive()).type is aiohttp.WSMsgType.BINARY
    (app,) = served.apps()
    return app


async def _gone(process: int) -> bool:
    for _ in range(200):
        if not Path(f"/proc/{process}").exists():
            return True
        await asyncio.sleep(0.05)  # A process of somebody else cannot be waited for.
    return False


async def test_an_app_ends_with_its_page_and_never_grows_with_its_size(
    served: Served,
) -> None:
    async with aiohttp.ClientSession() as session:
        app = await _connected(served, session)
        status = Path(f"/proc/{app}/status").read_text()
        resident = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert resident is not None
        assert int(resident[1]) < 400_000
    assert await _gone(app)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        signal.SIGKILL,
        pytest.param(signal.SIGINT, marks=pytest.mark.thorough),
        pytest.param(signal.SIGHUP, marks=pytest.mark.thorough),
    ],
)
async def test_apps_end_with_the_server(served: Served, number: int) -> None:
    async with aiohttp.ClientSession() as session:
        app = await _connected(served, session)
        served.process.send_signal(number)
        assert await _gone(app)
        served.process.wait(10)


async def test_ctrl_c_waits_for_nobody(served: Served) -> None:
    """Neither for a page, nor for who asks and never reads what is answered."""
    host, port = "127.0.0.1", int(served.origin.rsplit(":", 1)[1])
    path = served.address.removeprefix(served.origin) + "static/js/textual.js"
    ask = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    _, idle = await asyncio.open_connection(host, port)
    async with aiohttp.ClientSession() as session:
        await _connected(served, session)
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect((host, port))
            deaf.sendall(ask * 500)
            # Meanwhile the answers fill all that the system holds of them.
            for _ in range(50):
                assert await _status(served.address) == 200
            served.process.send_signal(signal.SIGINT)
            assert served.process.wait(20) == 0
    idle.close()


def test_a_port_in_use_is_one_line_without_an_address(served: Served) -> None:
    port = served.origin.rsplit(":", 1)[1]
    second = subprocess.run(
        [sys.executable, "-m", "workbench", "serve", "--port", port],
        capture_output=True,
        text=True,
    )
    assert second.returncode == 1
    (line,) = second.stderr.splitlines()
    assert port in line
    assert "address already in use" in line


_FOREIGN = """<script>
const told = (what) => fetch("/told/" + what).then(() => location = "{address}");
const socket = new WebSocket("{socket}");
socket.onopen = () => told("opened");
socket.onerror = () => told("refused");
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
async def test_in_a_browser_the_own_page_connects_and_that_of_another_does_not(
    served: Served, tmp_path: Path
) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()

    async def foreign(request: web.Request) -> web.Response:
        if request.path.startswith("/told/"):
            told.put_nowait(request.path)
            return web.Response()
        text = _FOREIGN.format(address=served.address, socket=served.socket)
        return web.Response(text=text, content_type="text/html")

    async with RawTestServer(foreign) as site:
        browser = await asyncio.create_subprocess_exec(
            *(str(CHROMIUM), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}"),
            # So that it stays open.
            *("--remote-debugging-port=0", str(site.make_url("/"))),
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            assert await asyncio.wait_for(told.get(), 60) == "/told/refused"
            for _ in range(600):
                if served.apps():
                    break
                await asyncio.sleep(0.1)  # The browser goes on to the own page.
            assert len(served.apps()) == 1
        finally:
            browser.terminate()
            await browser.wait()
