"""Who may look and who may steer; whatever is shown is data."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.board.web import server
from beads_ralph.board.web.security import Access
from beads_ralph.errors import RalphError
from beads_ralph.journal import runs
from beads_ralph.process import process_table
from tests.board.web_server import Got, Served, serving
from tests.cli.running import compiled_here
from tests.compile.plans import plan, sprint

BEAD = "bd-1-1-setup"
PAGES = ("/", "/graph", "/timeline", "/runs", "/analysis", f"/beads/{BEAD}")
READ = ("/api/v1/state", f"/api/v1/beads/{BEAD}", "/api/v1/timeline", "/api/v1/runs", "/api/v1/analysis")


@pytest.fixture
def served(repo: Path) -> Iterator[Served]:
    compiled_here(repo, plan(sprint("1.1", "Setup")))
    with serving(repo) as found:
        yield found


def test_looking_on_this_machine_needs_nothing_and_every_answer_is_guarded(served: Served) -> None:
    for path in (*PAGES, *READ, "/static/board.js", "/nowhere"):
        got = served.ask(path)
        assert got.status == (404 if path == "/nowhere" else 200), path
        policy = got.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert got.headers["x-content-type-options"] == "nosniff"
        assert got.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in got.headers
        assert served.access.token not in got.text
        assert served.access.action_token not in got.text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "10.1.2.3"]
)
def test_a_foreign_name_of_this_machine_gets_nothing(served: Served, host: str) -> None:
    for path in ("/", "/api/v1/state", "/api/v1/events", "/static/board.js"):
        got = served.ask(path, headers={"Host": host, **served.bearer})
        assert got.status == 403
    assert served.ask("/api/v1/state", headers={"Host": host}).error["code"] == "ACCESS.REFUSED"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_can_neither_order_nor_read(served: Served, headers: dict[str, str]) -> None:
    got = served.order("pause", headers=headers)
    assert (got.status, got.error["code"]) == (403, "ACCESS.REFUSED")
    assert served.ask("/api/v1/state", headers=headers).status == 403


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_orders_are_given_with_post_alone(served: Served, method: str) -> None:
    assert served.ask("/api/v1/actions/stop", method, headers=served.bearer).status == 405
    assert runs.ordered(served.sources.board.place.home) is None


def test_orders_need_the_token_and_the_header_of_our_own_pages(served: Served) -> None:
    access, body = served.access, b"{}"
    json_ = {"Content-Type": "application/json"}
    cookie = {"Cookie": f"{access.cookie}={access.token}"}
    refused = (
        json_,
        {**json_, "Authorization": "Bearer stale"},
        {**json_, "Cookie": f"{access.cookie}=stale", "X-Beads-Ralph-Token": access.action_token},
        {**json_, **cookie},
        {**json_, **cookie, "X-Beads-Ralph-Token": access.token},
        {**json_, **cookie, "X-Beads-Ralph-Token": "ünwahr"},
        {**json_, "X-Beads-Ralph-Token": access.action_token},
    )
    for headers in refused:
        encoded = {name: value.encode("utf-8").decode("latin-1") for name, value in headers.items()}
        got = served.ask("/api/v1/actions/retry", "POST", body, encoded)
        assert (got.status, got.error["code"]) == (401, "ACCESS.TOKEN_NEEDED"), headers
        assert "serve" in got.error["suggested_action"]
    let_in = ({**json_, **served.bearer}, {**json_, **cookie, "X-Beads-Ralph-Token": access.action_token})
    for headers in let_in:
        got = served.ask("/api/v1/actions/retry", "POST", body, headers)
        assert (got.status, got.error["code"]) == (400, "USAGE.INVALID"), headers


def test_a_form_of_another_site_has_no_content_type_that_is_taken(served: Served) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert served.order("pause", headers={"Content-Type": kind}).status == 400


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'"stop"', b'{"bead": 5}', b'{"x": 1}', b'{"again": "yes"}', b"[" * 5000, b"\xff"]
)
def test_an_order_that_is_none_is_refused_with_words(served: Served, body: bytes) -> None:
    headers = {"Content-Type": "application/json", **served.bearer}
    got = served.ask("/api/v1/actions/retry", "POST", body, headers)
    assert (got.status, got.error["code"]) == (400, "USAGE.INVALID")


def test_an_order_without_end_is_cut_off(served: Served) -> None:
    got = served.order("accept", {"bead": BEAD, "reason": "x" * 200_000})
    assert (got.status, got.error["code"]) == (413, "IO.TOO_LARGE")


def test_the_token_of_the_address_becomes_a_cookie_and_leaves_the_address(served: Served) -> None:
    got = served.ask(f"/?token={served.access.token}&filter=all")
    assert (got.status, got.headers["location"]) == (303, "/?filter=all")
    cookie = got.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    page = served.ask("/", headers={"Cookie": cookie.partition(";")[0]})
    assert served.access.action_token in page.text
    assert served.access.token not in page.text


def test_a_stale_token_gives_no_cookie(served: Served) -> None:
    got = served.ask("/?token=of-an-earlier-server")
    assert "set-cookie" not in got.headers


@pytest.mark.parametrize("client", [("192.0.2.7", 50_000), ("127.0.0.1", 1), ("::1", 1), None])
def test_whoever_is_not_known_as_the_same_user_needs_the_token(
    served: Served, client: tuple[str, int] | None
) -> None:
    """From elsewhere, or over a connection that the system knows nobody of."""
    for path in (*PAGES, *READ, "/api/v1/events"):
        assert asked_by(served, client, path).status == 401, path
    page = asked_by(served, client, "/", b"token=stale")
    assert page.status == 401
    assert "beads-ralph serve" in page.text
    stale = asked_by(served, client, "/api/v1/state", cookie=f"{served.access.cookie}=old")
    assert "earlier server" in stale.error["message"]
    assert (
        asked_by(served, client, "/api/v1/runs", authorization=served.bearer["Authorization"]).status == 200
    )


def asked_by(
    served: Served, client: tuple[str, int] | None, path: str, query: bytes = b"", **headers: str
) -> Got:
    """What the server would answer to this client."""
    sent: list[Any] = []
    names = {"host": f"127.0.0.1:{served.access.port}", **headers}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "root_path": "",
        "client": client,
        "headers": [(name.lower().encode(), value.encode()) for name, value in names.items()],
        "server": ("127.0.0.1", served.access.port),
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    app: Any = served.running.config.app
    asyncio.run(app(scope, receive, send))
    head = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Got(sent[0]["status"], head, b"".join(one.get("body", b"") for one in sent[1:]))


def test_what_is_served_to_others_knows_its_addresses_but_no_foreign_name() -> None:
    access = Access.on("0.0.0.0", 80)  # noqa: S104 - that is what is tested
    for name, known in {"192.168.1.7": True, "[fe80::1]:80": True, "evil.example": False}.items():
        asked = _Asked(name)
        if known:
            access.check_host(asked)  # type: ignore[arg-type]
        else:
            with pytest.raises(RalphError):
                access.check_host(asked)  # type: ignore[arg-type]


class _Asked:
    def __init__(self, host: str) -> None:
        self.headers = {"host": host}


def test_a_port_that_is_taken_is_refused_and_the_usual_one_gives_way() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        with pytest.raises(RalphError, match="is taken") as caught:
            server.listening("127.0.0.1", other.getsockname()[1])
        assert "--port 0" in caught.value.suggested_action
    with server.listening("127.0.0.1", None) as one, server.listening("127.0.0.1", None) as two:
        assert one.getsockname() != two.getsockname()


@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2f..%2fetc%2fpasswd", "%00", "a" * 5000, "bd-9-9-gone"])
def test_a_bead_that_is_not_there_is_not_found_whatever_it_is_called(served: Served, name: str) -> None:
    for path in (f"/api/v1/beads/{name}", f"/beads/{name}", f"/static/{name}"):
        assert served.ask(path).status == 404, path


HOSTILE = "<script>alert(1)</script> \"'><img src=x onerror=alert(2)> {{ 7*7 }} \x1b[31mred"


def test_hostile_words_of_plans_and_agents_stay_words(repo: Path) -> None:
    compiled_here(repo, plan(sprint("1.1", "Setup <script>alert(1)</script> {{ 7*7 }}")))
    home = repo / ".ralph"
    (bead,) = _beads(repo)
    folder = runs.RunFolder(home, "20260101T000000000Z-abcd")
    folder.path.mkdir(parents=True)
    stamp = {"at": "2026-01-01T00:00:00.000Z", "run_id": folder.run_id, "bead": bead, "attempt": 1}
    evidence = {"name": HOSTILE, "kind": "verifier", "command": HOSTILE, "commit": "--all", "ruling": "fail"}
    rows = [
        {"kind": "run_started", **stamp, "max_parallel": 1, "actor": HOSTILE},
        {"kind": "bead_claimed", **stamp, "title": HOSTILE, "bead_kind": "work", "plan_file": "p"}
        | {"branch": HOSTILE, "max_attempts": 3},
        {"kind": "verdict_given", **stamp, "ruling": "fail", "message": HOSTILE, "flags": [HOSTILE]}
        | {"will_retry": True, "checks": [{**evidence, "message": HOSTILE}]},
        {"kind": "pull_request_opened", **stamp, "number": 1, "url": "javascript:alert(1)", "branch": HOSTILE}
        | {"target": "main", "commit": "--output=/tmp/x"},
    ]
    lines = [json.dumps(row) for row in rows]
    folder.journal.write_text("\n".join([*lines, "{broken", '"no object"', ""]), encoding="utf-8")
    jobs = folder.path / "jobs" / bead
    jobs.mkdir(parents=True)
    (jobs / "a1-dev.out").write_bytes(b"<script>alert(3)</script>\x1b[2J\xff\n" + b"x" * 10_000_000 + b"\n")
    with serving(repo) as served:
        state = served.ask("/api/v1/state").json
        assert state["run"]["broken_lines"] == 2
        page = served.ask(f"/beads/{bead}")
        assert page.status == 200
        body = page.text.lower()
        assert body.count("<script") == 1  # our own
        for words in ("<img", "onerror=alert(2)>", 'href="javascript', "49"):
            assert words not in body, words
        assert "&lt;script&gt;" in body
        said = served.ask(f"/api/v1/beads/{bead}/transcript")
        assert len(said.body) < 1_000_000
        assert "\\u001b" not in said.text
        assert "\x1b" not in said.text


def _beads(root: Path) -> list[str]:
    from beads_ralph.store.embedded.embedded_store import EmbeddedStore
    from beads_ralph.store.query import Query

    return [bead.id for bead in EmbeddedStore(root).find(Query()).beads]


def test_the_table_of_connections_is_read_as_the_kernel_writes_it() -> None:
    assert process_table.table_form("::1", 80).endswith(":0050")
    with socket.create_server(("127.0.0.1", 0)) as here:
        table = (process_table.PROC / process_table.CONNECTIONS[4]).read_text("ascii")
        assert process_table.table_form("127.0.0.1", here.getsockname()[1]) in table
