"""serve: the board in the browser, until it is ended."""

from __future__ import annotations

import json
import sys
from typing import Annotated

from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer, out
from beads_ralph.cli.commands import Option
from beads_ralph.cli.style import current_style
from beads_ralph.errors import succeeded


def serve(
    port: Annotated[
        int | None,
        Option("--port", min=0, max=65535, help="This port; 0 takes any that is free.", show_default="8642"),
    ] = None,
    host: Annotated[
        str, Option("--host", help="Listen at this address instead of on this machine only.")
    ] = "127.0.0.1",
    open_: Annotated[bool, Option("--open", help="Open it in the browser.")] = False,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Show the board in the browser: look at a run and steer it, until Ctrl-C."""
    from beads_ralph.board.web import server
    from beads_ralph.board.web.security import Access, is_loopback
    from beads_ralph.board.web.sources import Sources

    sources = Sources.open(store=store)
    listener = server.listening(host, port)

    def ready(address: str, access: Access) -> None:
        whole = f"{address}/?token={access.token}"
        data = {"url": address, "open": whole, "host": host, "port": access.port, "token": access.token}
        if current_style() == "text":
            out(f"{sources.project}: {whole}")
            if not is_loopback(host):
                out("  others can reach it: anyone with this address can steer the run. It is not encrypted.")
            out("  Ctrl-C ends it; the run goes on")
        else:
            out(json.dumps(succeeded(data).to_json(), indent=2))
        sys.stdout.flush()
        if open_:
            _open(whole)

    server.serve(listener, host, sources, ready)
    return Answer({}, printed=True)


def _open(address: str) -> None:
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
