"""A loopback GitHub on a unix socket: what the real gh asks, answered out of a bare repository.

gh 2.23 asks with `pr list`: PullRequestList; with `pr create`: RepositoryInfo, PullRequestForBranch and
PullRequestCreate; with `api`: that request, a body in chunks. Later versions also ask which fields there are.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

Asked = Literal["list", "repository", "existing", "create", "patch", "features", "rest", "unknown"]
OWNER, NAME = "acme", "app"
BODY_LIMIT = 65_536
TITLE_LIMIT = 256
OK = 200


@dataclass
class Pull:
    number: int
    title: str
    body: str
    head: str
    base: str
    from_fork: bool = False
    state: str = "OPEN"
    merged_at: str | None = None
    """The commit that was merged; a pull request that is open follows its branch."""

    @property
    def url(self) -> str:
        return f"https://github.com/{OWNER}/{NAME}/pull/{self.number}"


@dataclass
class WorkflowRun:
    """A run of a workflow, newest last in the list of the hub."""

    id: int
    workflow: int = 0
    status: str = "queued"
    conclusion: str | None = None
    updated_at: str = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class Trouble:
    """What goes wrong once, with the next request of its kind."""

    on: Asked
    status: int = 503
    body: str = '{"message": "Service Unavailable"}'
    hangs: bool = False
    after: bool = False
    """It is done, and only the answer goes wrong."""


@dataclass
class GitHub:
    """What this GitHub holds, and what it was asked."""

    bare: Path
    token: str = "dummy"
    pulls: list[Pull] = field(default_factory=list)
    workflows: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Number → file and name."""
    runs: list[WorkflowRun] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    closing: threading.Event = field(default_factory=threading.Event)

    def head(self, branch: str) -> str | None:
        words = ["git", "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}"]
        done = subprocess.run(words, cwd=self.bare, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout.strip() or None

    def merge(self, number: int) -> None:
        """What a person does with the button."""
        pull = self.pulls[number - 1]
        pull.state, pull.merged_at = "MERGED", self.head(pull.head)
        commit = pull.merged_at or ""
        words = ["git", "update-ref", f"refs/heads/{pull.base}", commit]
        subprocess.run(words, cwd=self.bare, capture_output=True, timeout=60, check=True)

    def trouble(self, asked: Asked) -> Trouble | None:
        with self.lock:
            self.asked.append(asked)
            for trouble in self.troubles:
                if trouble.on == asked:
                    self.troubles.remove(trouble)
                    return trouble
        return None

    def answer(self, asked: Asked, request: dict[str, Any], path: str) -> tuple[int, Any]:
        variables = request.get("variables") or {}
        if asked == "patch":
            return self._patched(int(path.rsplit("/", 1)[1]), request)
        if asked == "rest":
            found = self._rest(path)
            return (OK, found) if found is not None else (404, {"message": "Not Found"})
        if asked == "create":
            return OK, self._created(variables["input"])
        if asked == "features":
            named = re.findall(r"(\w+)\s*:\s*__type", request["query"])
            return OK, {"data": {name: {"fields": []} for name in named}}
        if asked == "unknown":
            return 404, {"message": "Not Found"}
        return OK, {"data": {"repository": self._looked_up(asked, variables)}}

    def _rest(self, path: str) -> Any:
        parts = urlsplit(path)
        words = parts.path.removeprefix(f"/repos/{OWNER}/{NAME}/").split("/")
        if words == ["pulls"]:
            query = parse_qs(parts.query)
            if query["state"] == ["closed"]:
                return [self._pull(pull) for pull in reversed(self.pulls) if pull.state != "OPEN"]
            head = query["head"][0]
            return [self._pull(pull) for pull in reversed(self.pulls) if f"{OWNER}:{pull.head}" == head][:1]
        if words[0] == "pulls":
            return next((self._pull(pull) for pull in self.pulls if str(pull.number) == words[1]), None)
        if words == ["actions", "workflows"]:
            rows = [{"id": id_, "path": path, "name": name} for id_, (path, name) in self.workflows.items()]
            return {"workflows": rows}
        if words[:2] == ["actions", "workflows"]:
            of = [vars(run) for run in reversed(self.runs) if str(run.workflow) == words[2]]
            return {"workflow_runs": of[:1]}
        return next((vars(run) for run in self.runs if str(run.id) == words[2]), None)

    def _pull(self, pull: Pull) -> dict[str, Any]:
        state = "open" if pull.state == "OPEN" else "closed"
        merged = "2026-01-02T03:04:05Z" if pull.state == "MERGED" else None
        known = {"number": pull.number, "title": pull.title, "state": state, "merged_at": merged}
        return {**known, "head": {"ref": pull.head}}

    def _looked_up(self, asked: Asked, variables: dict[str, Any]) -> dict[str, Any]:
        if asked == "list":
            return {"pullRequests": self._page(variables["headBranch"], variables["state"])}
        if asked == "existing":
            page = self._page(variables["headRefName"], variables["states"])
            return {"pullRequests": page, "defaultBranchRef": {"name": "main"}}
        return self._repository()

    def _page(self, head: str, states: list[str]) -> dict[str, Any]:
        nodes = [
            {
                "id": f"PR_{pull.number}",
                "number": pull.number,
                "url": pull.url,
                "title": pull.title,
                "body": pull.body,
                "headRefOid": pull.merged_at or self.head(pull.head),
                "headRefName": pull.head,
                "baseRefName": pull.base,
                "isCrossRepository": pull.from_fork,
                "headRepositoryOwner": {"id": "U_1", "login": "stranger" if pull.from_fork else OWNER},
                "state": pull.state,
            }
            for pull in reversed(self.pulls)
            if pull.head == head and pull.state in states
        ]
        page = {"hasNextPage": False, "endCursor": ""}
        return {"totalCount": len(nodes), "nodes": nodes, "pageInfo": page}

    def _created(self, wanted: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            if refusal := self._refusal(wanted):
                error = {"type": "UNPROCESSABLE", "path": ["createPullRequest"], "message": refusal}
                return {"data": {"createPullRequest": None}, "errors": [error]}
            number = len(self.pulls) + 1
            head, base = wanted["headRefName"], wanted["baseRefName"]
            pull = Pull(number, wanted["title"], wanted["body"], head, base)
            self.pulls.append(pull)
        return {"data": {"createPullRequest": {"pullRequest": {"id": f"PR_{number}", "url": pull.url}}}}

    def _refusal(self, wanted: dict[str, Any]) -> str:
        head, base = wanted["headRefName"], wanted["baseRefName"]
        ours = [pull for pull in self.pulls if not pull.from_fork and pull.state == "OPEN"]
        if any((pull.head, pull.base) == (head, base) for pull in ours):
            return f"A pull request already exists for {OWNER}:{head}."
        if self.head(base) is None:
            return "Base ref must be a branch"
        if self.head(head) is None:
            return "Head sha can't be blank, Head ref must be a branch"
        if len(wanted["body"]) > BODY_LIMIT or len(wanted["title"]) > TITLE_LIMIT:
            return f"Body or title is too long (maximum is {BODY_LIMIT} and {TITLE_LIMIT} characters)"
        return f"No commits between {base} and {head}" if self.head(base) == self.head(head) else ""

    def _patched(self, number: int, request: dict[str, Any]) -> tuple[int, Any]:
        if len(request.get("body", "")) > BODY_LIMIT:
            return 422, {"message": "Validation Failed"}
        pull = self.pulls[number - 1]
        pull.body = request.get("body", pull.body)
        pull.state = request.get("state", pull.state).upper()
        return OK, {"number": number, "body": pull.body}

    def _repository(self) -> dict[str, Any]:
        return {
            "id": "R_1",
            "name": NAME,
            "owner": {"id": "U_1", "login": OWNER},
            "hasIssuesEnabled": True,
            "hasWikiEnabled": False,
            "description": "",
            "viewerPermission": "WRITE",
            "defaultBranchRef": {"name": "main"},
            "parent": None,
            "mergeCommitAllowed": True,
            "rebaseMergeAllowed": True,
            "squashMergeAllowed": True,
        }


def _kind(method: str, path: str, query: str) -> Asked:
    """The names of the operations; later versions of gh may add others, which are told as unknown."""
    if method == "PATCH" and path.startswith(f"/repos/{OWNER}/{NAME}/pulls/"):
        return "patch"
    if method == "GET" and path.startswith(
        (f"/repos/{OWNER}/{NAME}/pulls", f"/repos/{OWNER}/{NAME}/actions/")
    ):
        return "rest"
    named: dict[str, Asked] = {
        "__type": "features",
        "query PullRequestList(": "list",
        "query RepositoryInfo(": "repository",
        "query PullRequestForBranch(": "existing",
        "mutation PullRequestCreate(": "create",
    }
    return next((asked for start, asked in named.items() if start in query), "unknown")


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    github: GitHub


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Say nothing; and the parent's words would need a network address."""

    def _request(self) -> None:
        text = self._body()
        request: dict[str, Any] = json.loads(text) if text else {}
        github = self.server.github
        if self.headers.get("Authorization") != f"token {github.token}":
            self._send(401, '{"message": "Bad credentials"}')
            return
        asked = _kind(self.command, self.path, request.get("query", ""))
        trouble = github.trouble(asked)
        if trouble is None:
            status, answer = github.answer(asked, request, self.path)
            self._send(status, json.dumps(answer))
            return
        if trouble.after:
            github.answer(asked, request, self.path)
        if trouble.hangs:
            github.closing.wait(120)
            self.close_connection = True
            return
        self._send(trouble.status, trouble.body)

    def _body(self) -> str:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts).decode()

    def _send(self, status: int, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("X-Oauth-Scopes", "repo, read:org")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = _request  # noqa: N815 - the names that http.server calls


@contextmanager
def serving(github: GitHub, socket: Path) -> Iterator[None]:
    """Answer on the socket for the block."""
    with _Server(str(socket), _Handler) as server:
        server.github = github
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield
        finally:
            github.closing.set()
            server.shutdown()
            thread.join(10)


def configure(directory: Path, socket: Path) -> None:
    """A configuration with which gh reaches every host through the socket."""
    directory.mkdir(parents=True)
    (directory / "config.yml").write_text(f"http_unix_socket: {socket}\nprompt: disabled\n", encoding="utf-8")
