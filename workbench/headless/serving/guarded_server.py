"""A web server for the app that no other page, machine or user can drive.

The address carries a token, requests must name this server as host and origin, and the
page may neither be framed nor load anything from elsewhere.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import secrets
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web
from aiohttp.http_exceptions import HttpProcessingError
from textual_serve.server import Server

from workbench.headless.diagnostics import say
from workbench.headless.serving.guarded_app import GuardedApp

log = logging.getLogger("textual-serve")
_PAGE = Path(__file__).parent / "page"
_MOST_COLUMNS, _MOST_ROWS = 500, 200
"""Of a terminal; every cell costs memory."""
_LONGEST_MESSAGE = 1 << 20
_MOST_CONNECTIONS = 64
_ACCEPTED_AT_ONCE = 16
_REQUEST_S = 10.0
"""How long a connection may take to send a whole request."""
_ANSWER_S = 1.0
"""How long the end waits, twice, for who does not read what is answered."""
_MALFORMED = (
    *(ValueError, TypeError, LookupError, AttributeError),
    *(OverflowError, RecursionError),
)
"""What reading a message raises that no page of ours sends."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class GuardedServer(Server):
    """Serves the app on this machine, under an address that cannot be guessed."""

    def __init__(self, command: str, host: str, port: int, title: str) -> None:
        # Not under the name localhost too: its page would load from elsewhere.
        url = f"http://{host}:{port}".removesuffix(":80")
        super().__init__(command, host, port, title, url, templates_path=_PAGE)
        self._token = secrets.token_urlsafe(24)
        self._host = url.removeprefix("http://")
        self._connections: set[asyncio.Task[Any]] = set()
        self._answering: set[Any] = set()
        """Connections with a whole request; that of a page has one while it lives."""
        self._dropped: set[Any] = set()
        self._ended = asyncio.Event()

    @property
    def address(self) -> str:
        """What the user opens."""
        return f"{self.public_url}/{self._token}/"

    def serve(self, debug: bool = False) -> None:
        """Say the address once it answers; serve until told to end."""
        self.initialize_logging()
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._ended.set)
        app = await self._make_app()
        # A connection counts as idle until a request has come as a whole.
        runner = web.AppRunner(
            app, keepalive_timeout=_REQUEST_S, shutdown_timeout=_ANSWER_S
        )
        await runner.setup()
        try:
            assert runner.server is not None
            accept = functools.partial(self._accepted, runner.server)
            # Not `async with`: from Python 3.12 on it waits for all who are connected.
            listener = await loop.create_server(
                accept, self.host, self.port, backlog=_ACCEPTED_AT_ONCE
            )
            say(f"open {self.address} in a browser; ctrl+c ends it")
            await self._ended.wait()
            listener.close()
        finally:
            await runner.cleanup()

    def _accepted(self, server: web.Server) -> asyncio.Protocol:
        """Take a connection; one too many takes the place of the oldest idle one."""
        self._dropped.intersection_update(server.connections)
        kept = [c for c in server.connections if c not in self._dropped]
        if len(kept) >= _MOST_CONNECTIONS:
            oldest = next((c for c in kept if c not in self._answering), None)
            if oldest is None:
                return _Refusal()
            self._dropped.add(oldest)
            oldest.force_close()
        return server()

    def initialize_logging(self) -> None:
        """Say what goes wrong, not what is asked for."""
        super().initialize_logging()
        logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
        logging.getLogger("aiohttp.server").addFilter(_in_one_line)

    async def on_startup(self, app: web.Application) -> None:
        """Say nothing more than the command does."""

    async def on_shutdown(self, app: web.Application) -> None:
        """End the apps now: aiohttp would first wait a minute for their pages."""
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _make_app(self) -> web.Application:
        guarded = web.Application(middlewares=[self._guard])
        guarded.on_response_prepare.append(self._restrict)
        guarded.add_subapp(f"/{self._token}", await super()._make_app())
        return guarded

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> Any:
        """Answer requests of this server's own page only."""
        origins = request.headers.getall("Origin", [])
        if request.host != self._host or origins not in ([], [self.public_url]):
            log.warning("refused: host %r, origin %r", request.host, origins)
            raise web.HTTPForbidden(text="This is not the workbench's own page.")
        self._answering.add(request.protocol)
        try:
            return await handler(request)
        finally:
            self._answering.discard(request.protocol)

    async def _restrict(self, _: web.Request, response: web.StreamResponse) -> None:
        """Let an answer load nothing from elsewhere, and nobody frame or keep it."""
        sources = {
            "default-src": "'none'",
            "script-src": "'self'",
            # The terminal writes its colours as styles.
            "style-src": "'self' 'unsafe-inline'",
            "font-src": "'self'",
            "img-src": "'self' data:",
            "connect-src": f"'self' ws://{self._host}",
            "frame-ancestors": "'none'",
            "base-uri": "'none'",
            "form-action": "'none'",
        }
        policy = "; ".join(f"{name} {value}" for name, value in sources.items())
        response.headers.update(
            {
                "Content-Security-Policy": policy,
                "X-Frame-Options": "DENY",
                "X-Content-Type-Options": "nosniff",
                "Referrer-Policy": "no-referrer",
                "Cache-Control": "no-store",
            }
        )

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Give a page an app of its own, which ends with the connection."""
        websocket = web.WebSocketResponse(
            timeout=1.0, heartbeat=15, max_msg_size=_LONGEST_MESSAGE
        )
        await websocket.prepare(request)
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        app = GuardedApp(
            self.command,
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=websocket.close,
            download_manager=self.download_manager,
        )
        try:
            size = request.query.get("width", "80"), request.query.get("height", "24")
            await app.start(*_clamped(*size))
            await self._process_messages(websocket, app)
        except _MALFORMED as error:
            log.warning("closed a connection: %s", error)
        finally:
            await app.stop()
            await websocket.close()
        return websocket

    async def _process_messages(
        self, websocket: web.WebSocketResponse, app_service: Any
    ) -> None:
        async for message in websocket:
            if message.type is not WSMsgType.TEXT:
                raise ValueError(f"{message.type.name.lower()} {message.data!r:.80}")
            match json.loads(message.data):
                case ["stdin", str(text)]:
                    await app_service.send_bytes(text.encode())
                case ["resize", {"width": width, "height": height}]:
                    await app_service.set_terminal_size(*_clamped(width, height))
                case ["ping", str(data)]:
                    await websocket.send_json(["pong", data])
                case ["blur", *_]:
                    await app_service.blur()
                case ["focus", *_]:
                    await app_service.focus()
                case _:
                    raise ValueError(f"unknown message {message.data[:80]!r}")


class _Refusal(asyncio.Protocol):
    """Ends a connection for which there is no room."""

    def connection_made(self, transport: Any) -> None:
        """Leave nothing of it behind."""
        transport.abort()


def _in_one_line(record: logging.LogRecord) -> bool:
    """Say what was wrong with a request without where aiohttp found it."""
    if record.exc_info and isinstance(record.exc_info[1], HttpProcessingError):
        what = " ".join(record.exc_info[1].message.split())
        record.msg, record.args = "closed a connection: %s", (what[:200],)
        record.exc_info = None
    return True


def _clamped(width: Any, height: Any) -> tuple[int, int]:
    """Return a size that a terminal can have."""
    return (
        min(max(int(width), 1), _MOST_COLUMNS),
        min(max(int(height), 1), _MOST_ROWS),
    )
