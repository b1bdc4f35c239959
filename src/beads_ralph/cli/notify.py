"""notify: try the channels that tell you what needs you."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from beads_ralph.cli import options
from beads_ralph.cli.answer import FAILED, OK, Answer
from beads_ralph.cli.commands import Option
from beads_ralph.cli.page import Line, line
from beads_ralph.config import workspace
from beads_ralph.config.model import Urgency
from beads_ralph.errors import Code, RalphError


def try_out(
    urgency: Annotated[Urgency | None, Option("--urgency", help="Only to channels that take this.")] = None,
    json_: options.Json = False,
) -> Answer:
    """Send a message to every channel of the settings; exit 1 where one did not take it."""
    from beads_ralph.notify import channels
    from beads_ralph.notify.messages import Message

    found = channels.opened(workspace.find().config.notify)
    wanted = [one for one in found if urgency is None or urgency in one.when]
    if not wanted:
        action = "Add one, such as: notify: [{to: desktop}]; see beads-ralph help running, Notifications"
        raise RalphError(Code.CONFIG_INVALID, "no channel to send to", suggested_action=action)
    message = Message(urgency or "info", "beads-ralph: a test", "If you can read this, it works.")
    rows = [_sent(one, message) for one in wanted]
    ok = all(row["ok"] for row in rows)
    return Answer({"channels": rows}, page=lambda: _page(rows), exit_code=OK if ok else FAILED)


def _sent(channel: Any, message: Any) -> dict[str, Any]:
    from beads_ralph.notify.channels import NotSentError

    row = {"channel": channel.name, "when": sorted(channel.when)}
    try:
        channel.send(message)
    except NotSentError as problem:
        return {**row, "ok": False, "problem": str(problem)}
    return {**row, "ok": True, "problem": None}


def _page(rows: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    for row in rows:
        mark = ("✓", "green") if row["ok"] else ("✗", "red")
        yield line(mark, f" {row['channel']}  for {', '.join(row['when'])}")
        if row["problem"]:
            yield line(f"  {row['problem']}")
