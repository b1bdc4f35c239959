"""One bead's session as the server knows it. Runs at the coordinator, and imports nothing of the project.

The workflow lasts until the loop has settled what came of the session: so one that runs is one whose end the
store does not know yet, and a coordinator that comes later goes on with it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutType
from temporalio.exceptions import TimeoutError as TimedOut

NAME: Final = "bead-session"
SESSION: Final = "session"
DELIVER: Final = "deliver"
END: Final = "end"
REFUSED: Final = "Refused"
LOST: Final = "Lost"
LONGEST: Final = timedelta(days=30)
MOST_REFUSALS: Final = 5
FIRST_PAUSE: Final = 2.0
SOON: Final = RetryPolicy(initial_interval=timedelta(seconds=0.1), maximum_interval=timedelta(seconds=2))
ONCE: Final = RetryPolicy(maximum_attempts=1)

Said = dict[str, Any]


@workflow.defn(name=NAME)
class BeadWorkflow:
    """A ticket goes to a host; what the host says goes to the coordinator; then it waits to be settled."""

    def __init__(self) -> None:
        self.seen = 0
        self.exchanges = 0
        self.answers: list[Said] = []
        self.sent: dict[str, int] = {}
        self.result: Said | None = None
        self.refusals: list[str] = []
        self.settled = False

    @workflow.run
    async def run(self, ticket: Said) -> None:
        self.result = await self._worked(ticket)
        await self._tell(END, ticket["id"], self.result)
        await workflow.wait_condition(lambda: self.settled)

    @workflow.signal
    def settle(self) -> None:
        self.settled = True

    @workflow.query
    def standing(self) -> Said:
        known = {"seen": self.seen, "exchanges": self.exchanges, "answers": self.answers, "sent": self.sent}
        return {**known, "result": self.result}

    @workflow.update
    async def exchange(self, order_id: str, where: str, batch: Said) -> Said:
        """Nothing is lost between: what was not told is said again by the host."""
        self.exchanges += 1
        said: Said = await self._tell(DELIVER, order_id, where, batch)
        self.seen = max([self.seen, *(frame["number"] for frame in batch["frames"])])
        self.answers = said["answers"]
        self.sent |= {piece["file"]: piece["end"] for piece in batch["pieces"]}
        return said

    async def _tell(self, what: str, *told: Any) -> Any:
        """By the coordinator itself; one that has not taken this session up yet is asked again."""
        limit = timedelta(minutes=15)
        return await workflow.execute_local_activity(
            what, args=told, start_to_close_timeout=limit, retry_policy=SOON
        )

    async def _worked(self, ticket: Said) -> Said:
        queue, named = ticket["queue"], ""
        while True:
            try:
                return {"outcome": await self._at(ticket, queue, named)}
            except ActivityError as error:
                cause = error.cause
                if isinstance(cause, CancelledError):
                    raise
                if isinstance(cause, ApplicationError) and cause.type == REFUSED:
                    self.refusals.append(cause.message)
                    if len(self.refusals) >= MOST_REFUSALS:
                        return {"refused": self.refusals}
                    await workflow.sleep(FIRST_PAUSE * len(self.refusals))
                    queue, named = ticket["queue"], ""
                elif known := _last_place(cause):
                    queue, named = known["queue"], known["host"]
                else:
                    return {"lost": _words(cause, named), "begun": bool(named) or not _is_silent(cause)}

    async def _at(self, ticket: Said, queue: str, named: str) -> Any:
        """A host that was heard of last is asked by name, for a while: it may have its session still."""
        beat = timedelta(seconds=ticket["beat"])
        return await workflow.execute_activity(
            SESSION,
            ticket,
            task_queue=queue,
            heartbeat_timeout=beat,
            start_to_close_timeout=LONGEST,
            schedule_to_start_timeout=beat if named else None,
            retry_policy=ONCE,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )


def _last_place(cause: BaseException | None) -> Said | None:
    """The host whose signs of life have stopped, where one had begun."""
    if not isinstance(cause, TimedOut) or cause.type != TimeoutType.HEARTBEAT:
        return None
    return cause.last_heartbeat_details[0] if cause.last_heartbeat_details else None


def _is_silent(cause: BaseException | None) -> bool:
    """It went to a host that had ended or stood still by then, and nothing of it was ever heard."""
    return isinstance(cause, TimedOut)


def _words(cause: BaseException | None, named: str) -> str:
    if isinstance(cause, TimedOut):
        return f"{named or 'its host'} gives no sign of life any more"
    return cause.message if isinstance(cause, ApplicationError) else str(cause)
