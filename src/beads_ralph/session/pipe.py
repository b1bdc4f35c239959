"""A session in another process: its order, its host and its outcome as JSON lines over a pipe.

Nothing is shared but a git remote. This side sends the order and answers as the host; the other side
(`python -m beads_ralph.cli.session_worker`) works in a clone of its own. One message a line:

    to the session    {"order": …}   {"id": 3, "answer": …}   {"id": 3, "error": {…}}
    from the session  {"event": …}   {"id": 3, "ask": "keep", "with": …}   {"outcome": …}

The session is cancelled by SIGTERM; what does not end by itself then is killed, its agents included.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final, Protocol

from pydantic import TypeAdapter

from beads_ralph.bead.run_state import RunState
from beads_ralph.bead.usage import Budget, Usage
from beads_ralph.errors import Code, RalphError
from beads_ralph.forge.protocol import Proposal, PullRequest
from beads_ralph.journal.events import AgentStarted, Event, WarningGiven, event_of
from beads_ralph.journal.journal import now
from beads_ralph.process import jobs
from beads_ralph.process.jobs import Job
from beads_ralph.process.process_table import start_of
from beads_ralph.process.process_tree import Family
from beads_ralph.process.supervise import ended_whole
from beads_ralph.session.order import ORDER, Order, Outcome, RunSession, SessionHost
from beads_ralph.session.program_limits import ProgramLimit, ProgramTrouble

STDERR: Final = 2
GRACE: Final = 10.0
"""So long a cancelled session may take to end its agents; each of them has a grace of its own."""
LONGEST_LINE: Final = 64 * 1024 * 1024

Message = Mapping[str, Any]


def line_of(message: Message) -> bytes:
    return json.dumps(message, default=str).encode() + b"\n"


class MessageLine(Protocol):
    """Messages both ways, in order."""

    def send(self, message: Message) -> None:
        """Out of our hands when this returns."""

    def messages(self) -> AsyncIterator[Message]:
        """What the other side says, until nobody is there any more."""


def _event_message(event: Event) -> Message:
    """What the journal does not keep travels beside the event."""
    beside = {"prompt": event.prompt} if isinstance(event, AgentStarted) else {}
    return {"event": event.to_json(), "beside": beside}


def told_event(message: Message) -> Event:
    """The event of a message that has one."""
    event = event_of(message["event"])
    return replace(event, **message["beside"]) if isinstance(event, AgentStarted) else event


# --- the side of the host -----------------------------------------------------------------------------


@dataclass(frozen=True)
class PipedSessions:
    """Runs every session in a process of its own."""

    command: tuple[str, ...]
    """Reads an order on stdin and works on it."""
    cwd: Path
    environment: Mapping[str, str] | None = None
    grace: float = GRACE

    async def __call__(self, order: Order, host: SessionHost) -> Outcome:
        """The session's outcome. One that dies without a word is broken; what it pushed is on the remote."""
        try:
            async with self._started(order) as talk:
                talk.send({"order": order.to_json()})
                outcome = await _served(talk, host)
        except RalphError as error:
            return Outcome("broken", f"{error.message} ({error.suggested_action})")
        return outcome or Outcome("broken", "the process of the session ended without an outcome")

    @asynccontextmanager
    async def _started(self, order: Order) -> AsyncIterator[Talk]:
        inherited = os.environ if self.environment is None else self.environment
        job = Job(self.command, self.cwd, {**inherited, ORDER: order.id}, name=f"session-{order.bead.id}")
        (its_in, our_out), (our_in, its_out) = os.pipe(), os.pipe()
        try:
            process = jobs.start(job, its_in, its_out, STDERR)
        except (OSError, ValueError) as problem:
            os.close(our_out)
            os.close(our_in)
            raise RalphError(Code.UNAVAILABLE, f"cannot run a session: {jobs.why(problem)}") from None
        finally:
            os.close(its_in)
            os.close(its_out)
        family = Family(
            f"{ORDER}={order.id}", leader=process.pid, since=start_of(process.pid), reap=process.poll
        )
        try:
            async with ended_whole(family, self.grace), _talking(our_in, our_out) as talk:
                yield talk
        finally:
            jobs.reap(process)


async def _served(talk: Talk, host: SessionHost) -> Outcome | None:
    """Answer until the outcome comes; None where it never does. Agents at work side by side ask side by
    side, and are answered so."""
    async with asyncio.TaskGroup() as answers:
        async for message in talk.messages():
            if "outcome" in message:
                return Outcome.from_json(message["outcome"])
            if "ask" in message:
                answers.create_task(_answered(talk, host, message))
            elif problem := noted(host, told_event(message)):
                return Outcome("broken", problem)
    return None


def noted(host: SessionHost, event: Event) -> str:
    """Why the event could not be noted down: what cannot be is not done."""
    try:
        host.emit(event)
    except RalphError as error:
        return f"{error.message} ({error.suggested_action})"
    return ""


async def _answered(talk: Talk, host: SessionHost, message: Message) -> None:
    talk.send(await answer_to(message, host))


async def answer_to(message: Message, host: SessionHost) -> Message:
    """The host's answer to a question."""
    try:
        given, answer = ASKS[message["ask"]]
        said = await getattr(host, message["ask"])(*given.validate_python(message["with"]))
    except RalphError as error:
        said = {"code": str(error.code), "message": error.message, "action": error.suggested_action}
        return {"id": message["id"], "error": said}
    return {"id": message["id"], "answer": answer.dump_python(said, mode="json")}


ASKS: Final[Mapping[str, tuple[TypeAdapter[Any], TypeAdapter[Any]]]] = {
    "keep": (TypeAdapter(tuple[RunState]), TypeAdapter(None)),
    "why_pause": (TypeAdapter(tuple[()]), TypeAdapter(str)),
    "budget_left": (TypeAdapter(tuple[Usage]), TypeAdapter(Budget)),
    "branches_beside": (TypeAdapter(tuple[()]), TypeAdapter(Sequence[str])),
    "limit_of": (TypeAdapter(tuple[str]), TypeAdapter(ProgramLimit | None)),
    "report_trouble": (TypeAdapter(tuple[ProgramTrouble]), TypeAdapter(ProgramLimit)),
    "report_success": (TypeAdapter(tuple[str, float]), TypeAdapter(None)),
    "propose": (TypeAdapter(tuple[Proposal]), TypeAdapter(PullRequest)),
}
"""What a session may ask of its host: with what, and the answer. Pull requests are asked for by sessions on
other machines alone."""


# --- the side of the session --------------------------------------------------------------------------


@dataclass
class PipedHost:
    """The host as a session sees it that works in another process."""

    talk: MessageLine
    order: Order
    publish: Publish
    waiting: dict[int, asyncio.Future[Any]] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def emit(self, event: Event) -> None:
        self.talk.send(_event_message(replace(event, at=event.at or now())))

    async def keep(self, state: RunState) -> None:
        """The commits that the state speaks of are on the remote before it is kept."""
        await self.push()
        await self.ask("keep", state)

    async def push(self) -> None:
        if problem := await self.publish(self.order):
            whose = (self.order.bead.id, self.order.bead.metadata.team_name)
            self.emit(WarningGiven(bead=whose[0], team=whose[1], message=problem))

    async def why_pause(self) -> str:
        why: str = await self.ask("why_pause")
        return why

    async def budget_left(self, in_flight: Usage) -> Budget:
        left: Budget = await self.ask("budget_left", in_flight)
        return left

    async def branches_beside(self) -> Sequence[str]:
        names: Sequence[str] = await self.ask("branches_beside")
        return names

    async def limit_of(self, program: str) -> ProgramLimit | None:
        limit: ProgramLimit | None = await self.ask("limit_of", program)
        return limit

    async def report_trouble(self, trouble: ProgramTrouble) -> ProgramLimit:
        limit: ProgramLimit = await self.ask("report_trouble", trouble)
        return limit

    async def report_success(self, program: str, seconds: float) -> None:
        await self.ask("report_success", program, seconds)

    async def ask(self, what: str, *told: Any) -> Any:
        """One of `ASKS`, answered by the host."""
        number, (given, answered) = next(self.numbers), ASKS[what]
        said = given.dump_python(told, mode="json", exclude_unset=True)
        answer = self.waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self.talk.send({"id": number, "ask": what, "with": said})
            return answered.validate_python(await answer)
        finally:
            del self.waiting[number]

    async def hear(self) -> None:
        """Take answers until the host hangs up."""
        async for message in self.talk.messages():
            answer = self.waiting.get(message["id"])
            if answer is None or answer.done():
                continue
            if (error := message.get("error")) is None:
                answer.set_result(message["answer"])
            else:
                code, action = Code(error["code"]), error["action"]
                answer.set_exception(RalphError(code, error["message"], suggested_action=action))


Publish = Callable[[Order], Awaitable[str]]
"""Pushes what an order has come to so far, and says why it could not."""


async def serve(talk: MessageLine, run_session: RunSession, publish: Publish) -> None:
    """Read an order, work on it, and send its outcome. Without a host nobody wants the work: it is ended."""
    order = Order.from_json((await anext(talk.messages()))["order"])
    await serve_order(PipedHost(talk, order, publish), run_session)


async def serve_order(host: PipedHost, run_session: RunSession) -> None:
    """The same for an order that is here already."""
    talk, order = host.talk, host.order
    heard = asyncio.create_task(host.hear())
    session = asyncio.create_task(run_session(order, host))
    try:
        await asyncio.wait([heard, session], return_when=asyncio.FIRST_COMPLETED)
        if session.done():
            await host.push()
            talk.send({"outcome": session.result().to_json()})
    finally:
        for task in (heard, session):
            task.cancel()
        await asyncio.gather(heard, session, return_exceptions=True)


# --- the pipe -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Talk:
    """Messages both ways, one a line."""

    reader: asyncio.StreamReader
    writer: IO[bytes]

    def send(self, message: Message) -> None:
        """Out of our hands when this returns; where nobody reads any more, `messages` ends."""
        with suppress(BrokenPipeError):
            self.writer.write(line_of(message))
            self.writer.flush()

    async def messages(self) -> AsyncIterator[Message]:
        """Until the other side hangs up; a last line cut off by its death is left out."""
        while (line := await self.reader.readline()).endswith(b"\n"):
            yield json.loads(line)


@asynccontextmanager
async def _talking(incoming: int, outgoing: int) -> AsyncIterator[Talk]:
    with os.fdopen(incoming, "rb") as source, os.fdopen(outgoing, "wb") as writer:
        async with talking(source, writer) as talk:
            yield talk
        with suppress(OSError):
            writer.close()


@asynccontextmanager
async def talking(source: IO[bytes], writer: IO[bytes]) -> AsyncIterator[Talk]:
    """Messages over a pair of pipes."""
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    connect = asyncio.get_running_loop().connect_read_pipe
    transport, _ = await connect(lambda: asyncio.StreamReaderProtocol(reader), source)
    try:
        yield Talk(reader, writer)
    finally:
        transport.close()
