"""sessions, ask: the calls of agents on a bead, and a question to one that worked on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from beads_ralph.agents import faults
from beads_ralph.cli import options
from beads_ralph.cli.answer import Answer
from beads_ralph.cli.text import escape, lines
from beads_ralph.config import workspace
from beads_ralph.errors import Code, Fault, RalphError
from beads_ralph.files import text_files
from beads_ralph.session import past_sessions
from beads_ralph.session.past_sessions import Talk
from beads_ralph.store import registry

if TYPE_CHECKING:
    from rich.console import Console


def sessions(bead: options.BeadId, store: options.Store = None, json_: options.Json = False) -> Answer:
    """List the calls of agents on a bead, and the sessions one can ask."""
    found = past_sessions.talks(registry.open_store(workspace.find(), store).store.show(bead))
    data = {"bead": bead, "sessions": [past_sessions.brief(one) for one in found]}
    return Answer(data, lambda console: _show_sessions(console, bead, found))


def _show_sessions(console: Console, bead: str, found: list[Talk]) -> None:
    for one in found:
        row = past_sessions.brief(one)
        who = f"{row['role']:<4} {row['agent']} ({' '.join(filter(None, (one.program, one.model)))})"
        console.print(
            f"{one.started_at}  attempt {one.attempt}  {escape(who)}  {one.status}  "
            f"[dim]{escape(one.session_id or 'no session')}[/dim]"
        )
    if any(one.session_id for one in found):
        console.print(f'  → beads-ralph ask {bead} "why …?"')
    elif not found:
        console.print(f"no agent has worked on {bead} yet")


def ask(
    bead: options.BeadId,
    question: Annotated[str, typer.Argument(help="What to ask; - reads it from stdin.")],
    role: Annotated[Literal["dev", "qa"], typer.Option("--role", help="Whose session to take up.")] = "dev",
    session: Annotated[str | None, typer.Option("--session", help="This session, by its id.")] = None,
    store: options.Store = None,
    json_: options.Json = False,
) -> Answer:
    """Ask an agent a question in its recorded session, and print the answer."""
    from beads_ralph import app

    text = (text_files.read_stdin() if question == "-" else question).strip()
    if not text:
        raise RalphError(Code.USAGE, "the question is empty")
    space = workspace.find()
    found = registry.open_store(space, store).store.show(bead)
    if found.status == "in_progress":
        action = f"Ask when it is done; until then: beads-ralph logs {bead}"
        raise RalphError(Code.CONFLICT, f"agents are at work on {bead}", suggested_action=action)
    talk = past_sessions.pick(found, role, session)
    heard = app.ask(space, found, talk, text)
    answer = heard.answered.reply.text.strip()
    if heard.answered.call.problem or not answer:
        problem = heard.answered.call.problem or "gave no answer"
        kind = faults.kind_of(heard.answered.reply, heard.answered.ended)
        seen = f"see its output: {heard.answered.call.transcript}"
        action = f"{faults.remedy(kind)}; {seen}" if kind else f"{seen[0].upper()}{seen[1:]}"
        message = faults.told(kind, talk.program, heard.answered.reply.detail) if kind else ""
        raise RalphError(Code.AGENT_FAILED, message or f"{talk.program} {problem}", suggested_action=action)
    data: dict[str, Any] = {
        "bead": bead,
        "answer": answer,
        "session_id": heard.answered.call.session_id,
        **{key: past_sessions.brief(talk)[key] for key in ("role", "agent", "program", "attempt")},
    }
    changed = Fault(
        Code.CONFLICT,
        f"the agent changed something in {past_sessions.place_of(found, talk)}, though asked not to",
    )
    return Answer(data, lines(answer), [changed] if heard.changed else [])
