"""engine start, engine status, engine stop: the development server of sessions on other machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from beads_ralph.cli import options
from beads_ralph.cli.answer import FAILED, OK, Answer, speaker
from beads_ralph.cli.commands import Option
from beads_ralph.cli.page import Line, line
from beads_ralph.cli.style import current_style
from beads_ralph.engine import dev_server

if TYPE_CHECKING:
    from beads_ralph.engine.dev_server import DevServer


def start(
    port: Annotated[
        int | None,
        Option("--port", min=0, max=65535, help="This port; 0 takes any that is free.", show_default="7233"),
    ] = None,
    json_: options.Json = False,
) -> Answer:
    """Start the development server, or find it running."""
    server, is_new = dev_server.start(port, speaker(current_style()))

    def page() -> Iterator[Line]:
        how = "started" if is_new else "is running already"
        yield line(f"the server {how} at {server.address}, namespace {dev_server.NAMESPACE}")
        yield line(f"  log       {server.log}")
        yield line(f"  database  {server.database}")
        if server.port != dev_server.PORT:
            yield line(f"  settings  temporal: {{address: {server.address}}}")
        yield line("  end it with: beads-ralph engine stop")

    return Answer({"started": is_new, **server.to_json()}, page=page)


def status(json_: options.Json = False) -> Answer:
    """Say whether it runs and answers; exit 1 where it does not."""
    server = dev_server.noted()
    if server is None or not server.is_running:
        died = "; the one that was started has ended without being asked to" if server else ""
        text = f"no development server is running{died}"
        rest = server.to_json() if server else {"running": False}
        data = {**rest, "answers": False}
        return Answer(data, page=lambda: [line(text)], exit_code=FAILED)
    answers = dev_server.serves(server)
    return Answer(
        {**server.to_json(), "answers": answers},
        page=lambda: _page(server, answers=answers),
        exit_code=OK if answers else FAILED,
    )


def _page(server: DevServer, *, answers: bool) -> Iterator[Line]:
    said = "answers" if answers else "does not answer"
    yield line(f"the server at {server.address} {said} (process {server.pid})")
    yield line(f"  log       {server.log}")
    yield line(f"  database  {server.database}")


def stop(json_: options.Json = False) -> Answer:
    """Stop it; what it knows stays in its database."""
    server = dev_server.stop()
    text = (
        "no development server is running" if server is None else f"the server at {server.address} has ended"
    )
    data = {"stopped": server is not None, "address": server.address if server else None}
    return Answer(data, page=lambda: [line(text)])
