"""Hosts in network namespaces of their own, a Temporal server, a git daemon: many machines on one.

Needs root and `ip`. Each host's home is a small file system of its own, so that its disk can be full.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bench import rehearsals
from bench.rehearsals import Part, Rehearsal

PATIENCE = 120.0
NAMESPACE = "default"
MARK = "BEADS_RALPH_BENCH_HOST"
BEAT = 4.0
"""The heartbeat time-out of these runs, in seconds."""
SERVER = 200
"""The server's place in the network."""
PORT = 7233
ROOM = "1300m"
"""The size of a host's disk: a worker takes no bead with less than 1 GiB."""


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=60)


def free_port(ip: str) -> int:
    with socket.socket() as probe:
        probe.bind((ip, 0))
        return int(probe.getsockname()[1])


@dataclass
class Program:
    """A process that is killed, stopped and started again."""

    words: Sequence[str]
    log: Path
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.words,
                cwd=self.cwd,
                env={**os.environ, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            self.process.wait(timeout=PATIENCE)
            self.process = None


@dataclass
class Server(Program):
    """The Temporal server."""

    address: tuple[str, int] = ("", 0)

    def start(self) -> None:
        super().start()
        until = time.monotonic() + PATIENCE
        while not self._serves():
            if not self.runs or time.monotonic() > until:
                raise AssertionError(self.log.read_text("utf-8", "replace")[-2000:])
            time.sleep(0.05)

    def _serves(self) -> bool:
        with socket.socket() as probe:
            if probe.connect_ex(self.address):
                return False
        place = f"{self.address[0]}:{self.address[1]}"
        words = ("operator", "namespace", "describe", "--namespace", NAMESPACE, "--address", place)
        program = self.words[4]  # behind `ip netns exec SPACE`
        return not subprocess.run([program, *words], capture_output=True, check=False, timeout=60).returncode


@dataclass
class Host:
    """A worker in a network namespace, with a disk of its own."""

    name: str
    mark: str
    """In the environment of all its processes."""
    cable: str
    home: Path
    worker: Program

    def plug(self, *, there: bool) -> None:
        run("ip", "link", "set", self.cable, "up" if there else "down")

    def processes(self) -> list[int]:
        """The worker and the sessions of this host; agents are theirs."""
        return [pid for pid, _words in rehearsals.marked(lambda env: env.get(MARK) == self.mark)]

    def send(self, number: signal.Signals) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def fill(self) -> None:
        """No byte more than it has now."""
        used = shutil.disk_usage(self.home).used
        run("mount", "-o", f"remount,size={used // 1024 + 4}k", str(self.home))

    def empty(self) -> None:
        run("mount", "-o", f"remount,size={ROOM}", str(self.home))


@dataclass
class Cluster:
    """Everything that a run on many machines needs; `opened` makes it and takes it away."""

    folder: Path
    program: str
    """The temporal command."""
    parts: Sequence[Part]
    hosts_wanted: int = 3
    parallel: int = 6
    slots: int = 2
    tag: str = field(default_factory=lambda: f"{os.getpid() % 10000:04d}")
    hosts: list[Host] = field(default_factory=list)

    @property
    def ip(self) -> str:
        """A network of this process's own, in the range that is for tests."""
        return f"198.18.{os.getpid() % 250}.1"

    @property
    def bridge(self) -> str:
        return f"bb{self.tag}"

    @contextmanager
    def opened(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            self._lay(stack)
            space, ip = self._space(stack, SERVER)
            self.server = Server(
                self._server_words(space), self.folder / "server.log", self.folder, address=(ip, PORT)
            )
            stack.callback(self.server.end)
            self.server.start()
            self.rehearsal = self._stage(stack)
            for number in range(self.hosts_wanted):
                self._add_host(stack, number)
            self.loop = Program(
                self.rehearsal.command(),
                self.folder / "loop.log",
                self.rehearsal.root,
                {MARK: f"{self.tag}-run"},
            )
            stack.callback(self._end_all)
            yield

    def _lay(self, stack: ExitStack) -> None:
        run("ip", "link", "add", self.bridge, "type", "bridge")
        stack.callback(run, "ip", "link", "del", self.bridge)
        run("ip", "addr", "add", f"{self.ip}/24", "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")

    def _server_words(self, space: str) -> list[str]:
        """At any address of its namespace: elsewhere than on loopback its parts do not find one another."""
        return [
            *("ip", "netns", "exec", space, self.program, "server", "start-dev", "--headless"),
            *("--ip", "0.0.0.0", "--port", str(PORT)),  # noqa: S104
            *("--db-filename", str(self.folder / "temporal.db"), "--log-level", "error"),
            *("--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"),
            *("--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000"),
        ]

    def _space(self, stack: ExitStack, number: int) -> tuple[str, str]:
        """A network namespace on the bridge, and its address."""
        space, cable = f"br{self.tag}{number}", f"bv{self.tag}{number}"
        run("ip", "netns", "add", space)
        stack.callback(run, "ip", "netns", "del", space)
        run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
        run("ip", "link", "set", cable, "master", self.bridge, "up")
        ip = f"{self.ip.rpartition('.')[0]}.{number + 2}"
        run("ip", "-n", space, "addr", "add", f"{ip}/24", "dev", "eth0")
        for link in ("eth0", "lo"):
            run("ip", "-n", space, "link", "set", link, "up")
        return space, ip

    def _stage(self, stack: ExitStack) -> Rehearsal:
        """A repository with a remote behind a git daemon, which is cut off with the network."""
        rehearsal = rehearsals.stage(self.folder / "app", self.parts, parallel=self.parallel)
        remotes = self.folder / "remotes"
        run("git", "init", "--quiet", "--bare", str(remotes / "app.git"))
        port = free_port(self.ip)
        words = ("git", "daemon", "--reuseaddr", "--export-all", "--enable=receive-pack", "--timeout=60")
        place = (f"--listen={self.ip}", f"--port={port}", f"--base-path={remotes}", str(remotes))
        self.remote = Program((*words, *place), self.folder / "remote.log", self.folder)
        stack.callback(self.remote.end)
        self.remote.start()
        path = rehearsal.root / "beads-ralph.yaml"
        settings: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
        server = {"address": "{}:{}".format(*self.server.address), "heartbeat_timeout": BEAT}
        settings |= {"engine": "temporal", "temporal": server}
        path.write_text(yaml.safe_dump(settings), "utf-8")
        rehearsal.git("commit", "--quiet", "--all", "--message", "Many machines")
        rehearsal.git("remote", "add", "origin", f"git://{self.ip}:{port}/app.git")
        until = time.monotonic() + PATIENCE
        while subprocess.run(
            ["git", "push", "--quiet", "origin", "main"], cwd=rehearsal.root, capture_output=True, check=False
        ).returncode:
            assert time.monotonic() < until
            time.sleep(0.1)
        return rehearsal

    def _add_host(self, stack: ExitStack, number: int) -> None:
        name = f"host-{number}"
        home = self.folder / name
        home.mkdir()
        run("mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(home))
        stack.callback(run, "umount", "--lazy", str(home))
        space, _ip = self._space(stack, number)
        host = Host(
            name,
            f"{self.tag}-{name}",
            f"bv{self.tag}{number}",
            home,
            Program((), self.folder / f"{name}.log", self.folder),
        )
        host.worker = Program(
            (
                *("ip", "netns", "exec", space, sys.executable, "-m", "beads_ralph", "worker"),
                *("--name", name, "--home", str(home / "worker"), "--slots", str(self.slots)),
                *("--address", "{}:{}".format(*self.server.address)),
            ),
            self.folder / f"{name}.log",
            self.folder,
            {MARK: host.mark},
        )
        stack.callback(host.send, signal.SIGKILL)
        host.worker.start()
        self.hosts.append(host)

    def _end_all(self) -> None:
        self.loop.end()
        for host in self.hosts:
            host.send(signal.SIGCONT)
            host.worker.end()
            host.send(signal.SIGKILL)
