"""Messages to people: the right ones, once, without secrets; and no receiver ever holds anything up."""

from __future__ import annotations

import json
import queue
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from beads_ralph.config.model import NotifyChannel
from beads_ralph.errors import RalphError
from beads_ralph.journal.events import (
    BeadBlocked,
    BeadClosed,
    Event,
    ProgramUnavailable,
    RunStarted,
    WarningGiven,
)
from beads_ralph.notify import channels
from beads_ralph.notify.channels import NotSentError
from beads_ralph.notify.messages import Message, message_of
from beads_ralph.notify.sender import Notifier
from tests.cli.running import ralph, write
from tests.compile.plans import sprint
from tests.loop.plans import Project

SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
PATIENCE = 60


class Receiver:
    """A web server on this machine that keeps what it is sent."""

    def __init__(self, status: int = 200) -> None:
        self.posted: queue.Queue[dict[str, Any]] = queue.Queue()
        posted = self.posted

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                posted.put(json.loads(body))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/hook"

    def all(self) -> list[dict[str, Any]]:
        return [self.posted.get_nowait() for _ in range(self.posted.qsize())]


@contextmanager
def receiving(status: int = 200) -> Iterator[Receiver]:
    made = Receiver(status)
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join(PATIENCE)


@contextmanager
def hanging() -> Iterator[str]:
    """The address of one that takes the connection, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/hook"


def dead() -> str:
    """The address of a port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}/hook"


def webhook(url: str, *when: str, timeout: float = 5.0) -> list[channels.Channel]:
    said = {"to": "webhook", "url": url} | ({"when": [*when]} if when else {})
    return channels.opened([NotifyChannel.model_validate(said)], timeout=timeout)


def told(found: list[channels.Channel], *events: Event, last_seconds: float = 30.0) -> list[str]:
    """Tell these events at once; gives what did not arrive."""
    notifier = Notifier(found, gathering=0.01, last_seconds=last_seconds)
    for event in events:
        notifier.hear(event)
    notifier.start()
    return notifier.close()


BLOCKED = BeadBlocked(run_id="r", bead="bd-1", reason=f"the token {SECRET} was refused")
QUIET: list[Event] = [
    RunStarted(run_id="r", max_parallel=2, actor="a"),
    WarningGiven(run_id="r", message="look"),
    BeadClosed(run_id="r", bead="bd-2", reason="proven"),
]


def test_what_needs_a_person_arrives_without_secrets_and_the_rest_does_not() -> None:
    with receiving() as receiver:
        assert told(webhook(receiver.url), *QUIET, BLOCKED) == []
        (posted,) = receiver.all()
    assert (posted["urgency"], posted["bead"], posted["run_id"]) == ("needs_you", "bd-1", "r")
    assert posted["text"].startswith("bd-1 is blocked\nthe token ")
    assert SECRET not in json.dumps(posted)


def test_a_channel_gets_what_it_asks_for() -> None:
    with receiving() as receiver:
        told(webhook(receiver.url, "warning", "info"), *QUIET, BLOCKED)
        assert sorted(row["urgency"] for row in receiver.all()) == ["info", "info", "warning"]


def test_one_cause_is_told_once_and_many_causes_as_one_message() -> None:
    blocked = [BeadBlocked(run_id="r", bead=f"bd-{number % 20}", reason="no") for number in range(100)]
    with receiving() as receiver:
        told(webhook(receiver.url), BLOCKED, BLOCKED)
        assert len(receiver.all()) == 1
        told(webhook(receiver.url), *blocked)
        (posted,) = receiver.all()
    assert posted["title"].startswith("20 messages: ")
    assert "- and 10 more" in posted["text"]


@pytest.mark.parametrize(
    ("trouble", "urgency"), [("auth", "needs_you"), ("credit", "needs_you"), ("limit", "warning")]
)
def test_trouble_that_does_not_pass_by_itself_needs_somebody(trouble: str, urgency: str) -> None:
    event = ProgramUnavailable(program="claude", trouble=trouble, until="", reason="no", todo="sign in")
    message = message_of(event)
    assert message is not None
    assert (message.urgency, message.text) == (urgency, "no. sign in")


def test_a_receiver_that_is_gone_or_refuses_is_told_at_the_end() -> None:
    (problem,) = told(webhook(dead()), BLOCKED)
    assert problem.startswith("notify 1 (webhook): the receiver does not answer")
    with receiving(500) as receiver:
        assert told(webhook(receiver.url), BLOCKED) == ["notify 1 (webhook): the receiver answered 500"]


def test_a_receiver_that_hangs_holds_up_neither_the_run_nor_for_long_its_end() -> None:
    with hanging() as url:
        notifier = Notifier(webhook(url, timeout=PATIENCE), gathering=0.0, last_seconds=0.2)
        notifier.start()
        for number in range(2000):  # more than are kept: hearing one never waits
            notifier.hear(BeadBlocked(run_id="r", bead=f"bd-{number}", reason="no"))
        problems = notifier.close()
    assert "some messages were still under way when the run ended" in problems
    assert any("messages were dropped" in problem for problem in problems)


def test_a_channel_that_fails_again_and_again_is_left_alone() -> None:
    sent: list[Message] = []

    def fail(message: Message) -> None:
        sent.append(message)
        raise NotSentError("no")

    notifier = Notifier([channels.Channel("x", frozenset({"needs_you"}), fail)], gathering=0.0)
    notifier.start()
    for number in range(50):
        notifier.hear(BeadBlocked(run_id="r", bead=f"bd-{number}", reason="no"))
    assert notifier.close() == ["x: no"]
    assert len(sent) <= 3


def test_a_command_gets_the_message_and_its_time_is_limited(tmp_path: Path) -> None:
    script = f'cat > {tmp_path}/said; echo "$BEADS_RALPH_NOTIFY_URGENCY" >> {tmp_path}/said'
    said = NotifyChannel(to="command", command=["sh", "-c", script])
    assert told(channels.opened([said]), BLOCKED) == []
    text = tmp_path.joinpath("said").read_text("utf-8")
    assert text.startswith("bd-1 is blocked\n")
    assert text.endswith("needs_you\n")
    slow = NotifyChannel(to="command", command=["sleep", "600"])
    assert told(channels.opened([slow], timeout=0.2), BLOCKED) == ["notify 1 (command): sleep took too long"]
    gone = NotifyChannel(to="command", command=["./no-such-program"])
    assert "cannot be started" in told(channels.opened([gone]), BLOCKED)[0]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"to": "webhook"}, "needs `url`"),
        ({"to": "webhook", "url": "file:///etc/passwd"}, "needs `url`"),
        ({"to": "webhook", "url": "https://h.example/$NOT_SET"}, "$NOT_SET is not set"),
        ({"to": "command"}, "needs `command`"),
        ({"to": "pigeon"}, "`to` is desktop, webhook, command or an Apprise URL"),
    ],
)
def test_a_channel_that_cannot_work_is_a_clear_fault(said: dict[str, Any], words: str) -> None:
    with pytest.raises(RalphError, match=r".") as caught:
        channels.opened([NotifyChannel.model_validate(said)], {})
    assert words in caught.value.message


def test_without_the_extra_an_apprise_url_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(RalphError, match="needs Apprise") as caught:
        channels.opened([NotifyChannel(to="slack://$TOKEN/x")], {"TOKEN": SECRET})
    assert "pip install 'beads-ralph[notify]'" in str(caught.value.suggested_action)
    assert SECRET not in caught.value.message


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of its own imports
def test_apprise_sends_to_its_own_kinds_of_address() -> None:
    with receiving() as receiver:
        address = receiver.url.replace("http://", "json://")
        assert told(channels.opened([NotifyChannel(to=address)]), BLOCKED) == []
        (posted,) = receiver.all()
    assert posted["title"] == "bd-1 is blocked"


def test_notify_test_says_which_channels_work(repo: Path) -> None:
    with receiving() as receiver:
        settings = f"notify:\n  - {{to: webhook, url: '$HOOK'}}\n  - {{to: webhook, url: '{dead()}'}}\n"
        write(repo / "beads-ralph.yaml", settings)
        ran = ralph("notify", "test", "--json", cwd=repo, env={"HOOK": receiver.url})
        (posted,) = receiver.all()
    assert posted["title"] == "beads-ralph: a test"
    assert (ran.code, [row["ok"] for row in ran.data["channels"]]) == (1, [True, False])
    assert receiver.url not in ran.out
    write(repo / "beads-ralph.yaml", "store: embedded\n")
    assert "no channel to send to" in ralph("notify", "test", cwd=repo).err


def test_a_run_tells_its_end_and_a_dead_receiver_changes_nothing_but_a_warning(repo: Path) -> None:
    with receiving() as receiver:
        told_to = [{"to": "webhook", "url": url} for url in (receiver.url, dead())]
        project = Project.make(repo, sprint("1.1", "One"), notify=told_to)
        ran = project.ralph("run", "plan.md")
        (posted,) = receiver.all()
    assert (ran.code, posted["title"], posted["urgency"]) == (0, "the run ended: done", "ready")
    assert "warning: notify 2 (webhook): the receiver does not answer" in ran.err
