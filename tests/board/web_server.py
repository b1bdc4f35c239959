"""A real server of the board on a socket of its own, and plain requests to it."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beads_ralph.board.web import server
from beads_ralph.board.web.security import Access
from beads_ralph.board.web.sources import Sources

PATIENCE = 60.0


@dataclass(frozen=True)
class Got:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        told = self.json
        assert (told["success"], told["data"]) == (False, None), told
        return dict(told["error"])


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    access: Access
    sources: Sources
    running: server.BoardServer = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.access.port}"

    @property
    def address(self) -> str:
        """The one that a person opens."""
        return f"{self.url}/?token={self.access.token}"

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.access.token}"}

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Got:
        with closing(http.client.HTTPConnection("127.0.0.1", self.access.port, timeout=PATIENCE)) as link:
            link.request(method, path, body, dict(headers or {}))
            answer = link.getresponse()
            return Got(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())

    def order(
        self, name: str, said: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> Got:
        whole = {"Content-Type": "application/json", **self.bearer, **(headers or {})}
        return self.ask(f"/api/v1/actions/{name}", "POST", json.dumps(said or {}).encode(), whole)

    @contextmanager
    def events(self, last_seen: str = "") -> Iterator[Iterator[dict[str, Any]]]:
        """Server-sent events as they come: `id`, `event` and `data` of each."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.access.port, timeout=PATIENCE)) as link:
            link.request("GET", "/api/v1/events", headers={"Last-Event-ID": last_seen} if last_seen else {})
            yield _frames(link.getresponse())


def _frames(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    found: dict[str, Any] = {}
    while line := answer.readline():
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            found[name] = value
        elif "data" in found:
            yield {**found, "data": json.loads(found["data"])}
            found = {}


@contextmanager
def serving(root: Path, port: int = 0, host: str = "127.0.0.1") -> Iterator[Served]:
    """Serve the repository in a thread until the end of the block."""
    listener = server.listening(host, port)
    access = Access.on(host, listener.getsockname()[1])
    sources = Sources.open(root)
    running = server.server_of(sources, access)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield Served(access, sources, running)
    finally:
        running.should_exit = True
        thread.join(PATIENCE)
        listener.close()
        assert not thread.is_alive(), "the server did not end"
