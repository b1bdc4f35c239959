"""Who may look at the board and who may steer: the host asked for, the origin, the token.

Looking from the same machine as the same user needs nothing. Everything else needs the token: looking from
elsewhere, and every action. A page of somebody else's can neither read (its name is no host of ours, however
it resolves) nor act (its origin is not ours, and the token of actions is not in any cookie).
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from beads_ralph.errors import Code, RalphError
from beads_ralph.process import process_table

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
"""On every answer: nothing of elsewhere is loaded, nothing is kept, nobody frames the page."""
ACTION_HEADER: Final = "x-beads-ralph-token"
LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
TOKEN_BYTES: Final = 24


@dataclass(frozen=True)
class Access:
    """The rules of one server."""

    port: int
    names: frozenset[str] = LOCAL_NAMES
    any_address: bool = False
    """Bound to more than this machine: it is then known by any of its addresses, but by no foreign name."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(TOKEN_BYTES), repr=False)

    @classmethod
    def on(cls, host: str, port: int) -> Access:
        if is_loopback(host):
            return cls(port, LOCAL_NAMES | {host})
        return cls(port, LOCAL_NAMES | {host.lower(), socket.gethostname().lower()}, any_address=True)

    @property
    def cookie(self) -> str:
        """Cookies know no ports: each server has one of its own name."""
        return f"beads-ralph-{self.port}"

    @property
    def action_token(self) -> str:
        """Given to pages that have proven the token; no other site can read it, and no cookie carries it."""
        return hmac.new(self.token.encode(), b"actions", sha256).hexdigest()

    # --- what is asked of a request -------------------------------------------------------------------

    def check_host(self, asked: HTTPConnection) -> None:
        """A name of somebody else's that leads here is an attack by DNS rebinding."""
        name = _host_name(asked.headers.get("host", ""))
        if name in self.names or (self.any_address and _is_address(name)):
            return
        message = "this server is not known by the name that was asked for"
        raise RalphError(Code.ACCESS_REFUSED, message)

    def check_origin(self, asked: HTTPConnection) -> None:
        """What a browser says of the page behind a request; other programs say nothing."""
        origin, site = asked.headers.get("origin"), asked.headers.get("sec-fetch-site")
        own = f"{asked.url.scheme}://{asked.headers.get('host', '')}"
        if (origin is not None and origin != own) or site in ("cross-site", "same-site"):
            message = "the request comes from another site's page"
            raise RalphError(Code.ACCESS_REFUSED, message, suggested_action="Use the board's own page")

    def check_looking(self, asked: HTTPConnection) -> None:
        if not (self.is_known(asked) or is_same_user(asked)):
            raise _no_token(asked, self)

    def check_acting(self, asked: HTTPConnection) -> None:
        """The token itself, as programs send it; or the cookie together with what only our own pages know."""
        if self._bears_token(asked):
            return
        said = asked.headers.get(ACTION_HEADER, "")
        if not (self._has_cookie(asked) and _same(said, self.action_token)):
            raise _no_token(asked, self)

    def is_known(self, asked: HTTPConnection) -> bool:
        return self._bears_token(asked) or self._has_cookie(asked)

    def is_token(self, said: str) -> bool:
        return _same(said, self.token)

    def _bears_token(self, asked: HTTPConnection) -> bool:
        kind, _, said = asked.headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and _same(said.strip(), self.token)

    def _has_cookie(self, asked: HTTPConnection) -> bool:
        return _same(asked.cookies.get(self.cookie, ""), self.token)


def _same(said: str, wanted: str) -> bool:
    """Compared in the same time wherever they differ."""
    return hmac.compare_digest(said.encode("utf-8", "surrogateescape"), wanted.encode())


def _no_token(asked: HTTPConnection, access: Access) -> RalphError:
    stale = bool(asked.cookies.get(access.cookie) or asked.headers.get("authorization"))
    message = "the token is of an earlier server, or wrong" if stale else "this needs the server's token"
    return RalphError(Code.TOKEN_NEEDED, message)


# --- addresses ----------------------------------------------------------------------------------------


def _host_name(host: str) -> str:
    """Without its port and brackets, in small letters."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


# --- the user at the other end ------------------------------------------------------------------------


def is_same_user(asked: HTTPConnection) -> bool:
    """Tell whether the other end is on this machine and belongs to the user of this process.

    The kernel's table of connections says so. Where there is none, it is not known, and the token is needed.
    """
    client, server = asked.client, asked.scope.get("server")
    if client is None or server is None or not is_loopback(client.host):
        return False
    return process_table.owner_of_connection((client.host, client.port), server) == os.getuid()
