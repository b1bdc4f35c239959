"""Programs of the same kind side by side: the same tasks, the same stand-in for an agent, turn by turn."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.peer_adapters import PEERS, UNTRIED, Behaviour, Peer, StandIn, Task, git
from bench.places import Scratch
from bench.report import Judge, Row, seconds

ROUNDS = 3
PATIENCE = 3.0
"""How long an agent may take, where a program can be told."""
LONGEST = 600.0
LOOK_SECONDS = 0.05


def side_by_side(judge: Judge, scratch: Scratch) -> Iterator[Row]:
    """One row a question, with the answer of each program that is on this machine."""
    here = [peer() for peer in PEERS if peer().found()]
    yield Row("programs", _listed({peer.name: peer.version() for peer in here}))
    gone = [peer.name for peer in PEERS if peer.program and not peer().found()]
    gone += [name for name, program in UNTRIED.items() if shutil.which(program) is None]
    yield Row("not on this machine", ", ".join(gone) or "none")
    if untried := [name for name, program in UNTRIED.items() if shutil.which(program)]:
        yield Row("here, but not measured", ", ".join(untried))
    folder = scratch.folder / "peers"
    yield from _speed(judge, here, folder)
    for question, asked in GUARANTEES.items():
        answers = {peer.name: asked(peer, _place(folder)) for peer in here}
        yield Row(question, _listed(answers))


def _listed(answers: dict[str, str]) -> str:
    return " · ".join(f"{name}: {answer}" for name, answer in answers.items())


def _place(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="work-", dir=folder))


# --- how fast -----------------------------------------------------------------------------------------


def work(free: int, chained: int) -> list[Task]:
    """Tasks that wait for nothing, and a line of tasks each of which waits for the one before."""
    line = [Task(f"c{number}", f"c{number - 1}" if number > 1 else "") for number in range(1, chained + 1)]
    return [*line, *(Task(f"f{number}") for number in range(1, free + 1))]


@dataclass
class Trial:
    """One run of one program."""

    wall: float = 0.0
    cpu: float = 0.0
    memory: int = 0
    """The most that its own processes had at once, without agents."""
    code: int | None = None
    """None where it had to be ended."""
    log: list[tuple[str, str, float]] = field(default_factory=list)
    began: float = 0.0

    def moment(self, what: str, task: str) -> float | None:
        return next((at for kind, name, at in self.log if (kind, name) == (what, task)), None)

    @property
    def first(self) -> float:
        starts = [at for kind, _, at in self.log if kind == "start"]
        return min(starts) - self.began if starts else float("nan")

    def dependents(self, tasks: Sequence[Task]) -> list[float]:
        """From the end of an agent to the start of the one whose task waited for it."""
        pairs = [(self.moment("end", task.after), self.moment("start", task.name)) for task in tasks]
        return [start - end for end, start in pairs if end is not None and start is not None]


def _speed(judge: Judge, peers: Sequence[Peer], folder: Path) -> Iterator[Row]:
    tasks = work(3, 3) if judge.quick else work(20, 10)
    rounds: dict[str, list[Trial]] = {peer.name: [] for peer in peers}
    finished: dict[str, str] = {}
    for _ in range(1 if judge.quick else ROUNDS):
        for peer in peers:
            place = _place(folder)
            trial = staged(peer, place, tasks, "works", 60.0).run()
            rounds[peer.name].append(trial)
            finished[peer.name] = f"{len(peer.done(place / 'app', tasks))} of {len(tasks)}"
            shutil.rmtree(place, ignore_errors=True)
    name = f"{len(tasks)} tasks, {sum(bool(task.after) for task in tasks) + 1} of them in a line"
    yield Row(f"{name}: done", _listed(finished))
    figures: dict[str, Callable[[Trial], float]] = {
        "… wall time": lambda one: one.wall,
        "… processor time": lambda one: one.cpu,
        "… until the first agent": lambda one: one.first,
        "… from an agent's end to its dependent's start": lambda one: median(
            one.dependents(tasks) or [float("nan")]
        ),
    }
    for question, figure in figures.items():
        medians = {peer: median(map(figure, trials)) for peer, trials in rounds.items()}
        yield Row(question, _listed({peer: seconds(value) for peer, value in medians.items()}))
    memory = {peer: median(one.memory for one in trials) for peer, trials in rounds.items()}
    sizes = {peer: f"{most / 1e6:.0f} MB" for peer, most in memory.items()}
    yield Row("… memory of its own processes", _listed(sizes))
    idle = {peer.name: f"{idle_share(peer, _place(folder)):.2%}" for peer in peers}
    yield Row("of a core while one agent works", _listed(idle))


@dataclass
class Staged:
    """A program with its tasks in place."""

    peer: Peer
    root: Path
    agent: StandIn

    def start(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            words,
            cwd=self.root,
            env=dict(self.peer.environment(self.agent)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def run(self, longest: float = LONGEST, words: Sequence[str] | None = None) -> Trial:
        """Until it ends by itself, or has taken too long."""
        trial = Trial(began=time.time())
        process = self.start(words or self.peer.command())
        until = time.monotonic() + longest
        while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            trial.memory = max(trial.memory, sum(one.memory for one in self.own(process.pid)))
            if time.monotonic() > until:
                _end(process.pid)
                ended = os.wait4(process.pid, 0)
                break
            time.sleep(LOOK_SECONDS)
        else:
            trial.code = os.waitstatus_to_exitcode(ended[1])
        process.returncode = trial.code if trial.code is not None else -signal.SIGKILL
        trial.wall = time.time() - trial.began
        trial.cpu = ended[2].ru_utime + ended[2].ru_stime
        trial.log = self.log()
        return trial

    def log(self) -> list[tuple[str, str, float]]:
        rows = (row.split() for row in self.agent.log.read_text("utf-8").splitlines())
        return [(row[0], row[1], float(row[2])) for row in rows if len(row) == 3]

    def own(self, pid: int) -> list[Seen]:
        """The processes of the program, without agents and what those started."""
        table = {one.pid: one for one in _table()}
        found, ahead = [], [pid]
        while ahead:
            number = ahead.pop()
            one = table.get(number)
            if one is None or str(self.agent.path.parent) in one.words:
                continue
            found.append(one)
            ahead += [other.pid for other in table.values() if other.parent == number]
        return found


@dataclass(frozen=True)
class Seen:
    """A process at one moment."""

    pid: int
    parent: int
    memory: int
    cpu: float
    words: str


def _table() -> Iterator[Seen]:
    page = os.sysconf("SC_PAGE_SIZE")
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            stat = (entry / "stat").read_text("utf-8", "replace")
            fields = stat[stat.rindex(")") + 2 :].split()
            words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ")
            yield Seen(int(entry.name), int(fields[1]), int(fields[21]) * page, _cpu(entry), words)


def _cpu(entry: Path) -> float:
    """To the nanosecond: a clock tick is more than a program needs that does nothing."""
    return sum(int(one.read_text("ascii").split()[0]) for one in entry.glob("task/*/schedstat")) / 1e9


def _end(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def staged(
    peer: Peer, place: Path, tasks: Sequence[Task], behaviour: Behaviour, patience: float, lasts: float = 0.2
) -> Staged:
    agent = StandIn(place / "bin" / "claude", place / "notes" / "log", behaviour, lasts)
    peer.stage(place / "app", tasks, agent, patience)
    return Staged(peer, place / "app", agent)


IDLE_AGENT = 7.0
SETTLED, LOOKED_AT = 1.5, 4.0


def idle_share(peer: Peer, place: Path) -> float:
    """The share of a core that it takes while its only agent is at work."""
    app = staged(peer, place, [Task("t1")], "works", 60.0, IDLE_AGENT)
    process = app.start(peer.command())
    until = time.monotonic() + 60
    while not app.log() and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
    time.sleep(SETTLED)
    before = {one.pid: one.cpu for one in app.own(process.pid)}
    time.sleep(LOOKED_AT)
    after = sum(one.cpu - before.get(one.pid, 0.0) for one in app.own(process.pid))
    _finish(process)
    return after / LOOKED_AT


def _finish(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        _end(process.pid)
        process.wait()


# --- what can be relied on ------------------------------------------------------------------------------


def _empty_done(peer: Peer, place: Path) -> str:
    """An agent says that it is done, and has done nothing."""
    tasks = [Task("t1")]
    staged(peer, place, tasks, "lies", 60.0).run(120.0)
    return "called done" if peer.done(place / "app", tasks) else "found out"


def _killed(peer: Peer, place: Path) -> str:
    """SIGKILL in the middle, and the same command again."""
    tasks = work(4, 3)
    app = staged(peer, place, tasks, "works", 60.0)
    process = app.start(peer.command())
    until = time.monotonic() + 60
    while len(app.log()) < 5 and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
    process.kill()
    process.wait()
    time.sleep(1.0)
    finished = peer.done(app.root, tasks)
    app.agent.log.write_text("", encoding="utf-8")
    app.run(300.0, peer.again())
    again = {name for kind, name, _ in app.log() if kind == "start"} & finished
    done = peer.done(app.root, tasks)
    lost = [
        task.name
        for task in tasks
        if task.name in done and not _kept(app.root, task.file, f"part {task.name}")
    ]
    if len(done) < len(tasks):
        return f"{len(done)} of {len(tasks)} done"
    return f"{len(lost)} lost" if lost else f"all done, {len(again)} twice"


def _same_line(peer: Peer, place: Path) -> str:
    """Two tasks change the same line at once: is one of the two gone and called done?"""
    tasks = [Task("left"), Task("right")]
    staged(peer, place, tasks, "same line", 60.0).run(180.0)
    root = place / "app"
    done = peer.done(root, tasks)
    lost = [name for name in done if not _kept(root, "same", name)]
    return f"{len(lost)} lost" if lost else f"{len(done)} of 2 done, none lost"


def _hang(peer: Peer, place: Path) -> str:
    """An agent never ends."""
    tasks = [Task("t1")]
    trial = staged(peer, place, tasks, "hangs", PATIENCE).run(60.0)
    if trial.code is None:
        return "still waiting after 60 s"
    return "called done" if peer.done(place / "app", tasks) else f"given up after {seconds(trial.wall)}"


def _kept(root: Path, file: str, text: str) -> bool:
    """Whether some branch has a file that says so."""
    branches = git(root, "for-each-ref", "--format=%(refname)", "refs/heads").splitlines()
    found = subprocess.run(
        ["git", "grep", "--quiet", "--fixed-strings", text, *branches, "--", file],
        cwd=root,
        capture_output=True,
        check=False,
    )
    return found.returncode == 0


GUARANTEES: dict[str, Callable[[Peer, Path], str]] = {
    "an agent says done and did nothing": _empty_done,
    "SIGKILL, then the same command": _killed,
    "two tasks change the same line": _same_line,
    "an agent never ends": _hang,
}
