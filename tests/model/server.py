"""The scripted model as a server on loopback: `/s/<scenario>/<run>/…`, so that parallel tests share one."""

from __future__ import annotations

import gzip
import json
import re
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self, cast

from tests.model import chat, gemini, messages, responses
from tests.model.exchange import Answer, Call, Json, Question, Usage, Wire
from tests.model.scenarios import Scenario, answer, is_aside, scenario, trouble
from tests.model.script import Rule, Script

PLACE = re.compile(r"/s/(?P<scenario>[^/]+)/(?P<run>[^/]+)(?P<rest>/.*)?")
RUN = re.compile(r"/runs/(?P<run>[^/]+)/(?P<what>script|requests)")
MODELS = ("mock-model", "gpt-4o", "gemini-2.5-flash")
WIRES: tuple[tuple[re.Pattern[str], Wire], ...] = (
    (re.compile(r"/messages$"), cast(Wire, messages)),
    (re.compile(r"/chat/completions$"), cast(Wire, chat)),
    (re.compile(r"/responses$"), cast(Wire, responses)),
    (re.compile(r":(stream)?[gG]enerateContent$"), cast(Wire, gemini)),
)


@dataclass(frozen=True)
class Request:
    """One request as it came, what was read from it and what was answered."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in small letters."""
    body: Json
    wire: str = ""
    question: Question | None = None
    """None for what is no turn of the agent: a list of models, a count of tokens."""
    aside: bool = False
    """A title, or which model to take."""
    answered: str = ""
    at: float = field(default_factory=time.monotonic)
    """When, by the clock that every process of the machine shares."""


@dataclass
class Run:
    """What one run was asked, and what it plays."""

    requests: list[Request] = field(default_factory=list)
    script: Script | None = None
    turns: int = 0


class ModelServer(ThreadingHTTPServer):
    """Serves for the time of its `with` block."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.02}, name="model", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self.shutdown()
        self._thread.join(10)
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that went away: killed agents are what is tested."""
        del request, client_address

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def base(self, named: str, run: str) -> str:
        """The address to give a CLI; clients of OpenAI's formats want `/v1` after it."""
        assert scenario(named), f"no scenario {named!r}"
        return f"{self.root}/s/{named}/{run}"

    def play(self, run: str, rules: Iterable[Rule]) -> str:
        """Register the script of the run; gives the address to give a CLI."""
        self.run(run).script = Script.of(rules)
        return self.base("script", run)

    def run(self, name: str) -> Run:
        with self._lock:
            return self._runs.setdefault(name, Run())

    def requests(self, run: str) -> list[Request]:
        """Everything that the run was asked, in the order of arrival."""
        with self._lock:
            return list(self._runs.get(run, Run()).requests)

    def questions(self, run: str) -> list[Question]:
        """The turns of the agent alone."""
        return [asked.question for asked in self.requests(run) if asked.question and not asked.aside]

    def keep(self, run: str, request: Request) -> int:
        """Keep the request; gives its number among the turns of the agent."""
        kept = self.run(run)
        with self._lock:
            kept.requests.append(request)
            kept.turns += request.question is not None and not request.aside
            return kept.turns


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer

    def log_message(self, *_: object) -> None:
        """Say nothing; tests look at what was kept."""

    # --- what is asked ----------------------------------------------------------------------------

    def _any(self) -> None:
        body = self._body()
        path = self.path.split("?", 1)[0]
        if place := PLACE.fullmatch(path):
            self._scenario(place["scenario"], place["run"], place["rest"] or "/", body)
        elif run := RUN.fullmatch(path):
            self._about(run["run"], run["what"], body)
        else:
            self._send(404, {"error": {"message": f"nothing is at {path}"}})

    do_GET = do_HEAD = do_POST = do_PUT = _any  # noqa: N815 - the names that http.server calls

    def _body(self) -> Json:
        data = b"".join(self._chunks())
        if self.headers.get("Content-Encoding") == "gzip":
            data = gzip.decompress(data)
        try:
            read = json.loads(data) if data else {}
        except ValueError:
            return {"unreadable": data.decode(errors="replace")}
        return read if isinstance(read, dict) else {"list": read}

    def _chunks(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding") != "chunked":
            yield self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _about(self, run: str, what: str, body: Json) -> None:
        """For those who started the server by hand: PUT a script, GET the requests."""
        if what == "script":
            self.server.play(run, map(Rule.of, body["rules"]))
            self._send(200, {"base": self.server.base("script", run)})
            return
        kept = self.server.requests(run)
        self._send(200, {"requests": [_shown(asked) for asked in kept]})

    def _scenario(self, named: str, run: str, rest: str, body: Json) -> None:
        chosen = scenario(named)
        if chosen is None:
            self._send(404, {"error": {"message": f"no scenario {named}"}})
            return
        wire = next((wire for pattern, wire in WIRES if pattern.search(rest)), None)
        if wire is None or self.command != "POST":
            self.server.keep(run, self._kept(body))
            self._send(200, _beside(rest))
            return
        self._turn(chosen, run, wire, body)

    def _kept(self, body: Json) -> Request:
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Request(self.command, self.path, headers, body)

    def _turn(self, chosen: Scenario, run: str, wire: Wire, body: Json) -> None:
        question = wire.read(self.path, body)
        script = self.server.run(run).script
        wrong = trouble(question, script)
        said = answer(chosen, question, script)
        plain = self._kept(body)
        kept = Request(
            plain.method,
            plain.path,
            plain.headers,
            body,
            wire.name,
            question,
            is_aside(question),
            _told(said),
        )
        number = self.server.keep(run, kept)
        if not kept.aside and chosen.goes_wrong(number):
            wrong = chosen
        if wrong:
            self._go_wrong(wrong, wire, question, said)
        else:
            self._answer(wire, question, said)

    # --- what is answered -------------------------------------------------------------------------

    def _answer(self, wire: Wire, question: Question, said: Answer) -> None:
        usage = Usage(question.results)
        if not question.streams:
            self._send(200, wire.whole(question, said, usage))
            return
        self._begin("text/event-stream")
        for event in wire.events(question, said, usage):
            self._piece(event)
        self.wfile.write(b"0\r\n\r\n")

    def _go_wrong(self, chosen: Scenario, wire: Wire, question: Question, said: Answer) -> None:
        if chosen.refusal:
            body, headers = wire.refuse(chosen.refusal, time.time())
            self._send(int(headers.pop("status", chosen.refusal.status)), body, headers)
            return
        self.close_connection = True
        if chosen.mishap == "hang":
            self._wait()
            return
        self._begin("text/event-stream" if question.streams else "application/json")
        if chosen.mishap == "malformed":
            self._piece(b"data: {this is no JSON\n\n" if question.streams else b"{this is no JSON")
            self.wfile.write(b"0\r\n\r\n")
            return
        for piece in _half(wire, question, said):
            self._piece(piece)
        if chosen.mishap == "stall":
            self._wait()

    def _wait(self) -> None:
        """Until the client goes or the server ends."""
        while not self.server.closing.is_set():
            readable, _, _ = select.select([self.connection], [], [], 0.1)
            if readable:
                with suppress(OSError):
                    if not self.connection.recv(1, socket.MSG_PEEK):
                        return
                    time.sleep(0.1)

    def _begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _piece(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _send(self, status: int, body: Json, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _half(wire: Wire, question: Question, said: Answer) -> list[bytes]:
    """What comes of an answer before its middle."""
    usage = Usage(question.results)
    if question.streams:
        events = list(wire.events(question, said, usage))
        return events[: max(len(events) // 2, 1)]
    whole = json.dumps(wire.whole(question, said, usage)).encode()
    return [whole[: len(whole) // 2]]


def _shown(asked: Request) -> Json:
    names = ("path", "headers", "body", "wire", "at")
    return {name: getattr(asked, name) for name in names}


def _told(said: Answer) -> str:
    return json.dumps(said.arguments) if isinstance(said, Call) else said.text


def _beside(rest: str) -> Json:
    """What clients ask besides completions."""
    if rest.endswith(("/count_tokens", ":countTokens")):
        return {"input_tokens": 1000, "totalTokens": 1000}
    if rest.endswith("/models"):
        entries = [{"id": model, "object": "model", "slug": model} for model in MODELS]
        return {"object": "list", "data": entries, "models": []}
    return {}
