"""The server of the board: the app made of its parts, a socket on this machine, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from beads_ralph.board.web import api, pages
from beads_ralph.board.web.feed import Feed
from beads_ralph.board.web.security import HEADERS, Access
from beads_ralph.errors import Code, RalphError, failed

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from beads_ralph.board.web.sources import Sources

HOST: Final = "127.0.0.1"
PORT: Final = 8642
PORTS_TRIED: Final = 20
STATIC: Final = Path(__file__).parent / "static"
STATUS: Final = {
    Code.TOKEN_NEEDED: 401,
    Code.ACCESS_REFUSED: 403,
    Code.NOT_FOR_AGENTS: 403,
    Code.BEAD_NOT_FOUND: 404,
    Code.FILE_NOT_FOUND: 404,
    Code.CONFLICT: 409,
    Code.USAGE: 400,
    Code.CONSTRAINT: 400,
    Code.MISSING_FIELD: 400,
    Code.TOO_LARGE: 413,
}
ENDING_SECONDS: Final = 2
LONGEST_HEAD: Final = 64 * 1024


# --- the app ------------------------------------------------------------------------------------------


def create_app(sources: Sources, access: Access, feed: Feed) -> ASGIApp:
    """The board as an ASGI app. Whoever serves it elsewhere gives it the rules of that place."""

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        follower = asyncio.create_task(feed.follow())
        yield
        await feed.end()
        follower.cancel()

    routes = [
        *api.routes(),
        *pages.routes(),
        Mount("/static", StaticFiles(directory=STATIC), name="static"),
    ]
    app = Starlette(
        routes=routes, lifespan=lifespan, exception_handlers={Exception: _told, RalphError: _told}
    )
    app.add_exception_handler(404, _missing)
    app.add_exception_handler(405, _wrong_method)
    app.state.access, app.state.feed, app.state.sources = access, feed, sources
    return Guard(app, access)


class Guard:
    """Stands before everything: no request is answered that is not let in, no answer goes without headers."""

    def __init__(self, app: Starlette, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        from starlette.requests import Request

        asked = Request(scope, receive)
        told = _with_headers(send)
        try:
            self._check(asked)
        except RalphError as problem:
            await _answer(asked, problem)(scope, receive, told)
            return
        await self.app(scope, receive, told)

    def _check(self, asked: Request) -> None:
        self.access.check_host(asked)
        path = asked.url.path
        if path.startswith("/api/") or asked.method not in ("GET", "HEAD"):
            self.access.check_origin(asked)
        if not (path.startswith("/static/") or pages.brings_token(asked)):
            self.access.check_looking(asked)


def _with_headers(send: Send) -> Send:
    async def told(message: Message) -> None:
        if message["type"] == "http.response.start":
            has = {name for name, _ in message["headers"]}
            more = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            message["headers"] = [*message["headers"], *(row for row in more if row[0] not in has)]
        await send(message)

    return told


# --- errors -------------------------------------------------------------------------------------------


async def _told(asked: Request, problem: Exception) -> Response:
    if isinstance(problem, RalphError):
        return _answer(asked, problem)
    return _answer(asked, RalphError(Code.BUG, f"a bug in beads-ralph: {type(problem).__name__}"))


async def _missing(asked: Request, _problem: Exception) -> Response:
    return _answer(asked, RalphError(Code.FILE_NOT_FOUND, "there is nothing at this address"))


async def _wrong_method(asked: Request, _problem: Exception) -> Response:
    message = f"{asked.method} is not for this address; actions are ordered with POST"
    return _answer(asked, RalphError(Code.ACCESS_REFUSED, message), status=405)


def _answer(asked: Request, problem: RalphError, status: int = 0) -> Response:
    """As commands tell an error: JSON for programs, a page for people."""
    status = status or STATUS.get(problem.code, 500)
    if asked.url.path.startswith("/api/"):
        return Response(json.dumps(failed(problem).to_json()), status, media_type="application/json")
    return pages.error_page(asked, problem, status)


# --- serving ------------------------------------------------------------------------------------------


def listening(host: str, port: int | None) -> socket.socket:
    """A socket at that port; without one at the usual port or the next that is free. 0 takes any."""
    wanted = [port] if port is not None else [*range(PORT, PORT + PORTS_TRIED), 0]
    for one in wanted:
        found = _bound(host, one)
        if found is not None:
            return found
    action = "Give another one with --port, or --port 0 for any that is free"
    raise RalphError(Code.UNAVAILABLE, f"port {port} of {host} is taken", suggested_action=action)


def _bound(host: str, port: int) -> socket.socket | None:
    """None where somebody else has the port."""
    try:
        (family, _, _, _, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found = socket.socket(family, socket.SOCK_STREAM)
    except OSError as problem:
        raise _no_host(host, problem) from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(128)
    except OSError as problem:
        found.close()
        if problem.errno == errno.EADDRINUSE:
            return None
        raise _no_host(host, problem) from None
    return found


def _no_host(host: str, problem: OSError) -> RalphError:
    action = "Leave --host out to serve this machine only"
    message = f"cannot listen on {host}: {problem.strerror or problem}"
    return RalphError(Code.UNAVAILABLE, message, suggested_action=action)


def address_of(listener: socket.socket, host: str) -> str:
    """`http://127.0.0.1:8642`: what to open on this machine."""
    port = listener.getsockname()[1]
    shown = HOST if host in ("0.0.0.0", "::") else host  # noqa: S104 - only told from others
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


class BoardServer(uvicorn.Server):
    """Ends in order on the first signal: browsers are told, and nothing waits for them."""

    def __init__(self, config: uvicorn.Config, feed: Feed, ready: Callable[[], Any]) -> None:
        super().__init__(config)
        self.feed, self.ready = feed, ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Unlike uvicorn's own, does not raise the signal once more: that we were ended is no failure."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.feed.end()
        await super().shutdown(sockets)


def server_of(sources: Sources, access: Access, ready: Callable[[], Any] = lambda: None) -> BoardServer:
    """A server to be run on a socket; `ready` is called when it answers, and signals end it."""
    feed = Feed(sources.state)
    config = uvicorn.Config(
        create_app(sources, access, feed),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=ENDING_SECONDS,
        h11_max_incomplete_event_size=LONGEST_HEAD,
    )
    return BoardServer(config, feed, ready)


def serve(listener: socket.socket, host: str, sources: Sources, ready: Callable[[str, Access], Any]) -> None:
    """Serve until a signal ends it; `ready` is told the address and the rules when it answers."""
    access = Access.on(host, listener.getsockname()[1])
    address = address_of(listener, host)
    with contextlib.closing(listener):
        server_of(sources, access, lambda: ready(address, access)).run(sockets=[listener])
