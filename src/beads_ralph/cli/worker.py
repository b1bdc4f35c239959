"""worker: take beads of runs on other machines."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer, speaker
from beads_ralph.cli.commands import Option
from beads_ralph.cli.style import current_style
from beads_ralph.errors import Code, RalphError

if TYPE_CHECKING:
    from rich.console import Console

    from beads_ralph.config.model import TemporalSettings
    from beads_ralph.engine.temporal.worker import HostWorker
    from beads_ralph.store.protocol import Progress


def worker(  # noqa: PLR0913 - one parameter an option
    *,
    slots: Annotated[int, Option("--slots", min=1, help="Beads at work at the same time.")] = 4,
    labels: Annotated[str, Option("--labels", help="What this machine has, such as gpu,linux.")] = "",
    address: Annotated[str | None, Option("--address", help="The Temporal server, HOST:PORT.")] = None,
    namespace: Annotated[str | None, Option("--namespace", help="The namespace on it.")] = None,
    task_queue: Annotated[str | None, Option("--task-queue", help="The queue to take beads from.")] = None,
    name: Annotated[str | None, Option("--name", help="What this machine is called in the run.")] = None,
    home: Annotated[Path | None, Option("--home", help="Where clones and orders are kept.")] = None,
    config: options.ConfigFile = None,
    json_: options.Json = False,
) -> Answer:
    """Take beads of runs on other machines and work on them here, until Ctrl-C."""
    from beads_ralph.app.many_machines import require_temporal

    require_temporal()
    from beads_ralph.engine.clones import cache_home
    from beads_ralph.engine.temporal.worker import HostWorker, host_name
    from beads_ralph.files import lock, text_files

    said = _settings(config, {"address": address, "namespace": namespace, "task_queue": task_queue})
    place = (home or cache_home()).absolute()
    text_files.make_folder(place)
    host = HostWorker(
        said, place, name or host_name(place, cache_home()), slots, [*filter(None, labels.split(","))]
    )
    with lock.held(place / "worker.lock", 1.0, lambda: _taken(place)):
        asyncio.run(_serve(host, speaker(current_style())))
    return Answer({"host": host.host}, _goodbye)


def _settings(config: Path | None, given: dict[str, Any]) -> TemporalSettings:
    """Those of the folder that it is started in, if any, and what the command line says instead."""
    from beads_ralph.config import workspace

    said = workspace.find(None, config_file=config).config.temporal
    return said.model_copy(update={key: value for key, value in given.items() if value})


def _taken(place: Path) -> RalphError:
    message = f"another worker of this machine uses {place}"
    return RalphError(Code.CONFLICT, message, suggested_action="End it, or give this one a --home of its own")


async def _serve(host: HostWorker, say: Progress) -> None:
    """First signal: take nothing more, and finish what runs. Second: end it."""
    asked, running = asyncio.Event(), asyncio.get_running_loop()
    ending: list[asyncio.Task[None]] = []

    def signalled() -> None:
        if asked.is_set():
            ending.append(asyncio.create_task(host.end_now()))
        else:
            say("takes no more beads; what runs is finished (once more: end it)")
        asked.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(number, signalled)
    async with host.opened():
        say(f"{host.host} takes beads from {host.settings.task_queue} at {host.settings.address}")
        await asked.wait()


def _goodbye(console: Console) -> None:
    console.print("no session is left on this machine")
