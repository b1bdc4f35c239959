"""The pages: HTML from templates that escape whatever they are given, filled with life by scripts."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from beads_ralph import __version__
from beads_ralph.errors import RalphError
from beads_ralph.report.figures import time_text

if TYPE_CHECKING:
    from starlette.requests import Request

    from beads_ralph.board.web.security import Access
    from beads_ralph.board.web.sources import Sources

PAGES: Final = {
    "board": ("/", "Board", "b"),
    "graph": ("/graph", "Graph", "w"),
    "timeline": ("/timeline", "Timeline", "t"),
    "runs": ("/runs", "Runs", "r"),
    "analysis": ("/analysis", "Analysis", "a"),
}
"""By name: its address, its title, and the key after `g` that leads to it."""
YEAR_SECONDS: Final = 365 * 24 * 3600


def routes() -> list[Route]:
    return [
        Route("/", _shell("board")),
        Route("/graph", _shell("graph")),
        Route("/timeline", _shell("timeline")),
        Route("/runs", _runs),
        Route("/analysis", _analysis),
        Route("/beads/{bead}", _bead),
    ]


@cache
def _templates() -> Environment:
    loader = PackageLoader("beads_ralph.board.web", "templates")
    made = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {"span": time_text, "count_text": _counted}
    return made


def _counted(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else ""


def _page(asked: Request, name: str, status: int = 200, **values: Any) -> Response:
    access: Access | None = asked.app.state.access if "app" in asked.scope else None
    token = access.action_token if access and access.is_known(asked) else ""
    page = _templates().get_template(f"{name}.html")
    text = page.render(page=name, pages=PAGES, version=__version__, token=token, **values)
    return HTMLResponse(text.encode("utf-8", "backslashreplace"), status)


def error_page(asked: Request, problem: RalphError, status: int) -> Response:
    """What is wrong and what to do, for people."""
    return _page(asked, "error", status, problem=problem, project="")


# --- the token ----------------------------------------------------------------------------------------


def brings_token(asked: Request) -> bool:
    """Tell whether it is the address that `serve` prints, with whichever token."""
    return asked.method == "GET" and asked.url.path == "/" and "token" in asked.query_params


def _exchanged(asked: Request) -> Response | None:
    """The token of the address for a cookie, so that it stays in no history and in no other address."""
    said = asked.query_params.get("token")
    if said is None:
        return None
    access: Access = asked.app.state.access
    rest = urlencode([(key, value) for key, value in asked.query_params.multi_items() if key != "token"])
    answer = RedirectResponse("/?" + rest if rest else "/", 303)
    if access.is_token(said):
        answer.set_cookie(
            access.cookie, said, max_age=YEAR_SECONDS, path="/", httponly=True, samesite="strict"
        )
        return answer
    access.check_looking(asked)  # a stale token: where nobody needs one it does no harm
    return answer


# --- each page ----------------------------------------------------------------------------------------


def _sources(asked: Request) -> Sources:
    found: Sources = asked.app.state.sources
    return found


def _shell(name: str) -> Any:
    """A page that scripts fill from the live feed."""

    async def shown(asked: Request) -> Response:
        if name == "board" and (moved := _exchanged(asked)) is not None:
            return moved
        return _page(asked, name, project=_sources(asked).project)

    return shown


async def _runs(asked: Request) -> Response:
    found = await asyncio.to_thread(_sources(asked).runs)
    return _page(asked, "runs", project=_sources(asked).project, runs=found["runs"])


async def _analysis(asked: Request) -> Response:
    found = await asyncio.to_thread(_sources(asked).analysis)
    return _page(asked, "analysis", project=_sources(asked).project, analysis=found)


async def _bead(asked: Request) -> Response:
    name = asked.path_params["bead"]
    found = await asyncio.to_thread(_sources(asked).bead, name)
    return _page(asked, "bead", project=_sources(asked).project, bead=found)
