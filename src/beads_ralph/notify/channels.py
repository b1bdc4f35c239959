"""The ways a message is sent: to the desktop, to a web address, to a command, or through Apprise."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from beads_ralph.config.model import NotifyChannel, Urgency
from beads_ralph.errors import Code, RalphError
from beads_ralph.notify.messages import Message
from beads_ralph.process import jobs
from beads_ralph.process.jobs import Job

TIMEOUT: Final = 5.0
"""Seconds for one message."""
VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
EXTRA: Final = "pip install 'beads-ralph[notify]'"


class NotSentError(Exception):
    """A message did not reach its receiver."""


@dataclass(frozen=True)
class Channel:
    """A way to a person, and what goes there."""

    name: str
    """What people call it; nothing in it is secret."""
    when: frozenset[Urgency]
    send: Callable[[Message], None]
    """Raises NotSentError."""


def opened(
    settings: Sequence[NotifyChannel], env: Mapping[str, str] = os.environ, timeout: float = TIMEOUT
) -> list[Channel]:
    """Every channel, ready to send; CONFIG.INVALID where one cannot work here."""
    return [_channel(number, one, env, timeout) for number, one in enumerate(settings, 1)]


def _channel(number: int, said: NotifyChannel, env: Mapping[str, str], timeout: float) -> Channel:
    name = f"notify {number} ({said.to.partition(':')[0]})"
    when = frozenset(said.when)

    def filled(text: str) -> str:
        return VARIABLE.sub(lambda found: _value(found[1] or found[2], name, env), text)

    if said.to == "desktop":
        return Channel(name, when, lambda message: _desktop(message, timeout))
    if said.to == "webhook":
        address = _address(filled(said.url or ""), name)
        return Channel(name, when, lambda message: _post(address, message, timeout))
    if said.to == "command":
        words = tuple(said.command or ())  # as they are: it has the environment itself
        if not words:
            raise _wrong(f"{name}: a command needs `command`, a list of words")
        return Channel(name, when, lambda message: _run(words, message, timeout))
    if "://" in said.to:
        return Channel(name, when, _apprise(filled(said.to), name))
    raise _wrong(f"{name}: `to` is desktop, webhook, command or an Apprise URL")


def _wrong(message: str, action: str = "") -> RalphError:
    action = action or "See: beads-ralph help running, Notifications"
    return RalphError(Code.CONFIG_INVALID, message, suggested_action=action)


def _value(variable: str, name: str, env: Mapping[str, str]) -> str:
    if variable not in env:
        raise _wrong(f"{name}: ${variable} is not set", f"Set {variable}, or leave the channel out")
    return env[variable]


def _address(url: str, name: str) -> str:
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise _wrong(f"{name}: a webhook needs `url`, an http or https address")
    return url


# --- sending ------------------------------------------------------------------------------------------


def _post(url: str, message: Message, timeout: float) -> None:
    body = {"text": message.whole, "title": message.title, "urgency": message.urgency}
    data = json.dumps({**body, "run_id": message.run_id, "bead": message.bead}).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "beads-ralph"}
    request = urllib.request.Request(url, data, headers, method="POST")  # noqa: S310 - http or https only
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310
            answer.read(1024)
    except urllib.error.HTTPError as problem:
        raise NotSentError(f"the receiver answered {problem.code}") from None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "reason", None) or problem
        raise NotSentError(f"the receiver does not answer: {reason}") from None


def _run(words: Sequence[str], message: Message, timeout: float) -> None:
    """The message on stdin, its parts in the environment."""
    facts = {name: getattr(message, name) for name in ("urgency", "title", "text", "run_id", "bead")}
    told = {f"BEADS_RALPH_NOTIFY_{name.upper()}": value for name, value in facts.items()}
    job = Job(
        tuple(words), Path.cwd(), {**os.environ, **told}, stdin=message.whole, timeout=timeout, grace=0.5
    )
    try:
        ended = jobs.run(job)
    except OSError as problem:
        raise NotSentError(f"{words[0]} cannot be started: {problem.strerror}") from None
    if not ended.ok:
        why = "took too long" if ended.timed_out else f"ended with {ended.code}"
        raise NotSentError(f"{words[0]} {why}")


def _desktop(message: Message, timeout: float) -> None:
    if sys.platform == "darwin":
        script = f"display notification {json.dumps(message.text)} with title {json.dumps(message.title)}"
        return _run(("osascript", "-e", script), message, timeout)
    if shutil.which("notify-send") is None:
        raise NotSentError("notify-send is not here: install libnotify")
    urgency = "critical" if message.urgency == "needs_you" else "normal"
    words = (
        "notify-send",
        "--app-name=beads-ralph",
        f"--urgency={urgency}",
        "--",
        message.title,
        message.text,
    )
    return _run(words, message, timeout)


def _apprise(url: str, name: str) -> Callable[[Message], None]:
    try:
        import apprise
    except ImportError:
        raise _wrong(
            f"{name}: sending to {url.partition(':')[0]}:// needs Apprise", f"Install it: {EXTRA}"
        ) from None
    receiver = apprise.Apprise()
    if not receiver.add(url):
        raise _wrong(f"{name}: Apprise does not understand the URL")

    def send(message: Message) -> None:
        if not receiver.notify(body=message.text or message.title, title=message.title):
            raise NotSentError("Apprise could not send it")

    return send
