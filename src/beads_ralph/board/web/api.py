"""The JSON behind the board: the state, a bead, the live events, the runs, and orders.

What is asked for is answered as it is; errors have the envelope that commands have.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from beads_ralph.errors import Code, RalphError, succeeded

if TYPE_CHECKING:
    from starlette.requests import Request

    from beads_ralph.board.web.feed import Feed
    from beads_ralph.board.web.sources import Sources

LONGEST_ORDER: Final = 64 * 1024
VERSION: Final = "/api/v1"


def routes() -> list[Route]:
    return [
        Route(f"{VERSION}/state", _state),
        Route(f"{VERSION}/events", _events),
        Route(f"{VERSION}/beads/{{bead}}", _bead),
        Route(f"{VERSION}/beads/{{bead}}/transcript", _transcript),
        Route(f"{VERSION}/timeline", _timeline),
        Route(f"{VERSION}/runs", _runs),
        Route(f"{VERSION}/analysis", _analysis),
        Route(f"{VERSION}/actions/{{name}}", _act, methods=["POST"]),
    ]


def _sources(asked: Request) -> Sources:
    found: Sources = asked.app.state.sources
    return found


def _told(data: Any, status: int = 200) -> Response:
    """JSON whose texts may hold anything that a file can hold, half characters included."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "backslashreplace"), status, media_type="application/json")


async def _state(asked: Request) -> Response:
    feed: Feed = asked.app.state.feed
    return _told(await feed.refresh())


async def _events(asked: Request) -> Response:
    feed: Feed = asked.app.state.feed
    last_seen = asked.headers.get("last-event-id") or asked.query_params.get("last_event_id", "")
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(feed.frames(last_seen), media_type="text/event-stream", headers=headers)


async def _bead(asked: Request) -> Response:
    return _told(await asyncio.to_thread(_sources(asked).bead, asked.path_params["bead"]))


async def _transcript(asked: Request) -> Response:
    said = asked.query_params
    number = said.get("call", "")
    call = int(number) if number.isascii() and number.isdigit() else None
    return _told(await asyncio.to_thread(_sources(asked).transcript, asked.path_params["bead"], call))


async def _timeline(asked: Request) -> Response:
    return _told(await asyncio.to_thread(_sources(asked).timeline))


async def _runs(asked: Request) -> Response:
    return _told(await asyncio.to_thread(_sources(asked).runs))


async def _analysis(asked: Request) -> Response:
    return _told(await asyncio.to_thread(_sources(asked).analysis))


# --- orders -------------------------------------------------------------------------------------------


async def _act(asked: Request) -> Response:
    """Only our own pages and programs that know the token get here with effect."""
    asked.app.state.access.check_acting(asked)
    said = await _order(asked)
    done = await asyncio.to_thread(_sources(asked).act, asked.path_params["name"], said)
    return JSONResponse(succeeded(done).to_json())


async def _order(asked: Request) -> dict[str, Any]:
    kind = asked.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RalphError(Code.USAGE, "an order is JSON: Content-Type: application/json")
    body = b""
    async for part in asked.stream():
        body += part
        if len(body) > LONGEST_ORDER:
            raise RalphError(Code.TOO_LARGE, f"an order has at most {LONGEST_ORDER} bytes")
    try:
        said = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise RalphError(Code.USAGE, "the order is not JSON") from None
    if not isinstance(said, dict):
        raise RalphError(Code.USAGE, "an order is a JSON object")
    return said
