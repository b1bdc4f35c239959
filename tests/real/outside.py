"""Whether a program tried to reach anything but this machine's loopback.

`Proxy` is for every run: a proxy that lets nothing through and keeps what it was asked for. It hears of
programs that heed the proxy variables.

`python -m tests.real.outside` is for proofs: inside a network namespace of its own, with loopback alone and
every address leading to it, it runs one CLI with a scripted model, and tells each name that was looked up and
each address that was spoken to. Nothing can leave, and nothing can be tried unheard.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.model.server import ModelServer
from tests.real.clis import BARE, Cli, prepare

TIMEOUT_SECONDS = 120
# What programs speak to: names, the web, mail of telemetry.
PORTS = (80, 443, 4317, 4318, 8080, 8443)
NAMES = 53


class Proxy:
    """Refuses everything and keeps the first line of each request."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, name="proxy", daemon=True)

    @property
    def env(self) -> dict[str, str]:
        """In both spellings: programs differ."""
        url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        named = {"HTTP_PROXY": url, "HTTPS_PROXY": url, "ALL_PROXY": url, "NO_PROXY": "127.0.0.1,localhost"}
        return named | {name.lower(): value for name, value in named.items()}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Closing alone does not wake a thread that waits in accept.
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            with client, suppress(OSError):
                client.settimeout(5)
                self.asked.append(client.recv(4096).split(b"\r\n")[0].decode(errors="replace"))
                client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


# --- a namespace without a world ------------------------------------------------------------------


def raise_loopback() -> None:
    """A new namespace has the device, but switched off."""
    get_flags, set_flags, up = 0x8913, 0x8914, 0x1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack("16xh14x", fcntl.ioctl(any_socket, get_flags, asked))
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", flags | up))


def route_everything_here() -> None:
    """`ip route add local default dev lo`, for both families; not every machine has `ip`."""
    for family in (socket.AF_INET, socket.AF_INET6):
        _add_local_route(family)


def _add_local_route(family: int) -> None:
    new_route, ask_create_ack, table_local, by_boot, on_host, kind_local = 24, 0x405, 255, 3, 254, 2
    scope = on_host if family == socket.AF_INET else 0
    message = struct.pack("BBBBBBBBI", family, 0, 0, 0, table_local, by_boot, scope, kind_local, 0)
    device = struct.pack("HHI", 8, 4, socket.if_nametoindex("lo"))
    length = 16 + len(message) + len(device)
    header = struct.pack("IHHII", length, new_route, ask_create_ack, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
        link.send(header + message + device)
        (error,) = struct.unpack("i", link.recv(4096)[16:20])
    # A machine without IPv6 has nothing to route there.
    if error and family == socket.AF_INET:
        raise OSError(-error, os.strerror(-error))


class Listener:
    """Hears every name that is looked up and every connection to the usual ports, whatever the address."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._sockets = [self._names(), *map(self._port, PORTS)]
        for listening in self._sockets:
            serve = self._serve_names if listening.type == socket.SOCK_DGRAM else self._serve_port
            threading.Thread(target=serve, args=(listening,), daemon=True).start()

    def _names(self) -> socket.socket:
        listening = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind(("::", NAMES))
        return listening

    def _port(self, port: int) -> socket.socket:
        return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)

    def _serve_names(self, listening: socket.socket) -> None:
        """Answers each question with "no such name"."""
        while True:
            data, client = listening.recvfrom(4096)
            self.heard.append(f"name {_asked_name(data)}")
            listening.sendto(data[:2] + b"\x81\x83" + data[4:], client)

    def _serve_port(self, listening: socket.socket) -> None:
        while True:
            client, _ = listening.accept()
            address, port = client.getsockname()[:2]
            self.heard.append(f"connection to {address} port {port}")
            client.close()


def _asked_name(data: bytes) -> str:
    labels, at = [], 12
    while at < len(data) and (size := data[at]):
        labels.append(data[at + 1 : at + 1 + size].decode(errors="replace"))
        at += 1 + size
    return ".".join(labels)


def alone(job: dict[str, Any]) -> dict[str, Any]:
    """Run the CLI of the job in this namespace, and tell what came of it."""
    raise_loopback()
    route_everything_here()
    listener = Listener()
    with ModelServer() as server:
        base = server.base(job["scenario"], "r")
        done = _run(job, prepare(job["name"], Path(job["installed"]), Path(job["home"]), base))
        turns = len(server.questions("r"))
    told = {"code": done.returncode, "out": done.stdout, "err": done.stderr}
    return {**told, "heard": listener.heard, "turns": turns}


def _run(job: dict[str, Any], cli: Cli) -> subprocess.CompletedProcess[str]:
    for folder in job.get("owned", ()):
        _give(Path(folder), job["uid"])
    return subprocess.run(
        [*job.get("before", ()), str(cli.program), *BARE[cli.name], job["prompt"]],
        cwd=job["cwd"],
        env=cli.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def _give(folder: Path, uid: int) -> None:
    os.chown(folder, uid, uid)
    for entry in folder.rglob("*"):
        os.chown(entry, uid, uid, follow_symlinks=False)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(alone(json.load(sys.stdin))))
