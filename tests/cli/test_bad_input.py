"""Whatever is thrown at the commands: a clear error, the right exit code, and nothing changed."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.running import (
    MASON,
    RALPH,
    Ran,
    compiled_here,
    dump,
    environment,
    mason,
    ralph,
    run,
    tree,
    write,
)
from tests.compile.plans import plan, sprint

GOOD = plan(sprint("1.1", "Start"), sprint("1.2", "Next"))


def raw(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def fifty_megabytes(repo: Path) -> Path:
    path = raw(repo / "plan.md", GOOD.encode())
    os.truncate(path, 50_000_000)
    return path


def endless_link(repo: Path) -> Path:
    (repo / "plan.md").symlink_to(repo / "plan.md")
    return repo / "plan.md"


PLANS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "binary": (lambda repo: raw(repo / "plan.md", bytes(range(256)) * 40), "IO.NOT_TEXT"),
    "not UTF-8": (lambda repo: raw(repo / "plan.md", b"# Pl\xe4ne\n"), "IO.NOT_TEXT"),
    "UTF-16": (lambda repo: raw(repo / "plan.md", GOOD.encode("utf-16")), "IO.NOT_TEXT"),
    "a NUL byte": (lambda repo: raw(repo / "plan.md", GOOD.encode() + b"\n\0\n"), "IO.NOT_TEXT"),
    "50 MB": (fifty_megabytes, "IO.TOO_LARGE"),
    "a directory": (lambda repo: repo, "IO.FILE_NOT_FOUND"),
    "nothing there": (lambda repo: repo / "nope.md", "IO.FILE_NOT_FOUND"),
    "below a file": (lambda repo: repo / "README.md" / "plan.md", "IO.FILE_NOT_FOUND"),
    "a link to itself": (endless_link, "IO.FILE_NOT_FOUND"),
    "an endless name": (lambda repo: repo / ("x" * 5000), "IO.FILE_NOT_FOUND"),
    "empty": (lambda repo: raw(repo / "plan.md", b""), "PARSE.MARKDOWN"),
    "only a BOM": (lambda repo: raw(repo / "plan.md", b"\xef\xbb\xbf"), "PARSE.MARKDOWN"),
    "only front matter": (lambda repo: raw(repo / "plan.md", b"---\nteam: x\n---\n"), "PARSE.MARKDOWN"),
    "broken front matter": (lambda repo: raw(repo / "plan.md", b"---\na: [\n---\n"), "PARSE.MARKDOWN"),
    "a list as front matter": (lambda repo: raw(repo / "plan.md", b"---\n- a\n---\n"), "PARSE.MARKDOWN"),
}
TEXTS: dict[str, tuple[str, str]] = {
    "an id with a slash": (plan(sprint("1.1", "A", bead_name="`bd-a/b`")), "VALIDATION.CONSTRAINT"),
    "an id that climbs": (plan(sprint("1.1", "A", bead_name="`bd-../../x`")), "VALIDATION.CONSTRAINT"),
    "an endless id": (plan(sprint("1.1", "A", bead_name="bd-" + "x" * 300)), "VALIDATION.CONSTRAINT"),
    "emoji only": (plan(sprint("1.1", "🚀🔥")), "PARSE.INVALID_PATTERN"),
    "punctuation only": (plan(sprint("1.1", "!!! ???")), "PARSE.INVALID_PATTERN"),
    "a huge sprint number": (plan(sprint("1." + "9" * 5000, "A")), "PARSE.INVALID_PATTERN"),
    "a huge phase number": (plan(sprint("9" * 5000 + ".1", "A")), "PARSE.INVALID_PATTERN"),
    "digits of another script": (plan(sprint("\u0661.\u0661", "A")), "PARSE.INVALID_PATTERN"),
    "a branch that is an option": (plan(sprint("1.1", "A", branch="`--force`")), "VALIDATION.CONSTRAINT"),
    "a branch with a control character": (
        plan(sprint("1.1", "A", branch="`a\x1bb`")),
        "VALIDATION.INVALID_PATTERN",
    ),
    "an endless title": (plan(sprint("1.1", "A" * 600)), "VALIDATION.BEAD_SCHEMA"),
    "an agent outside its folder": (
        plan(sprint("1.1", "A", dev_agents="../../etc/passwd")),
        "VALIDATION.CONSTRAINT",
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_file_that_is_no_plan(repo: Path, name: str) -> None:
    make, code = PLANS[name]
    path = make(repo)
    before = tree(repo)
    ran = mason(path, "--annotate", cwd=repo)
    assert (ran.code, ran.error["code"]) == (1, code), ran.out[:500]
    assert path.name[:20] in ran.error["message"]
    assert len(ran.out) < 20_000
    assert tree(repo) == before


@pytest.mark.parametrize("name", TEXTS)
def test_a_plan_with_a_bad_value(repo: Path, name: str) -> None:
    text, code = TEXTS[name]
    write(repo / ".claude" / "agents" / "one.md", "# one\n")
    path = write(repo / "plan.md", text)
    before = tree(repo)
    ran = mason(path, "--annotate", cwd=repo)
    assert (ran.code, ran.error["code"]) == (1, code), ran.out[:500]
    assert "plan.md:" in ran.error["message"]
    assert tree(repo) == before


@pytest.mark.parametrize("command", ["validate", "migrate"])
@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"[]", b"null", b"{", b'{"id": NaN}', b"\xff", b"[" * 100_000, b'{"title": "\\ud800"}'],
    ids=["empty", "NUL", "list", "null", "half", "NaN", "bytes", "deep", "surrogate"],
)
def test_a_file_that_is_no_bead(repo: Path, command: str, data: bytes) -> None:
    path = raw(repo / "bead.json", data)
    before = tree(repo)
    ran = ralph(command, path, "--json", cwd=repo)
    assert (ran.code, ran.error["code"].split(".")[0] in ("VALIDATION", "IO")) == (1, True), ran.out[:500]
    assert tree(repo) == before


def test_an_unreadable_configuration_stops_every_command(repo: Path) -> None:
    raw(repo / "beads-ralph.yaml", b"store: [embedded\n")
    write(repo / "plan.md", GOOD)
    before = tree(repo)
    for words in (["list"], ["mason", "plan.md"], ["init"], ["plan", "check", "plan.md"]):
        ran = ralph(*words, "--json", cwd=repo)
        assert (ran.code, ran.error["code"]) == (1, "CONFIG.INVALID")
        assert "beads-ralph.yaml" in ran.error["message"]
    assert tree(repo) == before


@pytest.mark.parametrize("bead_id", ["../x", "a/b", "-x", "", "x" * 5000, "bd-1-1-start' OR '1'='1", "%"])
def test_show_takes_an_id_literally(repo: Path, bead_id: str) -> None:
    compiled_here(repo, GOOD)
    before = tree(repo)
    ran = ralph("show", "--json", "--", bead_id, cwd=repo)
    assert (ran.code, ran.out.count("bd-1-1-start") <= bead_id.count("bd-1-1-start") * 3) == (1, True)
    assert "DATABASE.BEAD_NOT_FOUND" in ran.out + ran.err
    assert tree(repo) == before


# --- full disks -------------------------------------------------------------------------------------


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of half a megabyte, where one may be mounted."""
    with tempfile.TemporaryDirectory(prefix="beads-ralph-disk-") as name:
        options = ["-t", "tmpfs", "-o", "size=512k,mode=755", "tmpfs", name]
        mounted = subprocess.run(["mount", *options], capture_output=True, timeout=60, check=False)
        if mounted.returncode:
            pytest.skip("no right to mount a small disk here; the limit on file sizes is tested below")
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "--lazy", name], timeout=60, check=True)


def fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(b"x" * 4096)
        except OSError:
            pass


@pytest.mark.skipif(shutil.which("mount") is None, reason="needs mount")
@pytest.mark.parametrize("free", ["nothing", "too little"])
def test_a_full_disk_changes_nothing_in_the_store(small_disk: Path, tmp_path: Path, free: str) -> None:
    root = small_disk / "app"
    subprocess.run(["git", "init", "--quiet", root], check=True, timeout=60)
    compiled_here(root, GOOD)
    before = dump(root)
    big = plan(*(sprint(f"2.{n}", f"Big {n}", tasks=["x" * 2000]) for n in range(1, 200)))
    path = write(tmp_path / "big.md", big)
    if free == "nothing":
        fill(small_disk)
    ran = mason(path, cwd=root)
    if free == "nothing":
        (small_disk / "ballast").unlink()
    assert (ran.code, ran.error["code"]) == (1, "IO.WRITE_FAILED"), ran.out
    assert "space" in ran.error["suggested_action"]
    assert dump(root) == before
    assert mason(root / "plan.md", "--check-existing", cwd=root).data["beads_skipped"]


def limited(size: int) -> Callable[[], None]:
    """For the child: no file may grow beyond `size`; writing more is an error, not the end."""

    def apply() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return apply


def run_limited(size: int, *words: str, cwd: Path) -> Ran:
    done = subprocess.run(
        [*RALPH, *words, "--json"],
        cwd=cwd,
        env=environment({}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        preexec_fn=limited(size),
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def test_a_file_that_may_not_grow_changes_nothing_in_the_store(repo: Path) -> None:
    compiled_here(repo, GOOD)
    size = (repo / ".ralph" / "beads.db").stat().st_size
    big = plan(*(sprint(f"2.{n}", f"Big {n}", tasks=["x" * 2000]) for n in range(1, 200)))
    write(repo / "big.md", big)
    before = tree(repo)
    ran = run_limited(size, "mason", "big.md", cwd=repo)
    assert (ran.code, ran.error["code"]) == (1, "IO.WRITE_FAILED"), ran.out
    assert tree(repo) == before
    assert mason("big.md", cwd=repo).data["beads_created"] == 199


def test_a_failed_annotation_says_that_the_beads_are_in_and_keeps_the_plan(repo: Path) -> None:
    """The store gets through, the larger plan does not."""
    text = GOOD.replace("# A plan\n", "# A plan\n" + "prose " * 400_000 + "\n")
    path = write(repo / "plan.md", text)
    ran = run_limited(1_000_000, "mason", "plan.md", "--annotate", cwd=repo)
    assert (ran.code, ran.error["code"]) == (1, "IO.WRITE_FAILED"), ran.out[:500]
    assert "the beads are in the store" in ran.error["message"]
    assert ran.error["details"]["beads_created"] == ["bd-1-1-start", "bd-1-2-next"]
    assert "--check-existing --annotate" in ran.error["suggested_action"]
    assert path.read_text(encoding="utf-8") == text
    assert {entry.name for entry in repo.iterdir()} == {".git", ".ralph", "README.md", "plan.md"}

    data = mason("plan.md", "--check-existing", "--annotate", cwd=repo).data
    assert (data["beads_created"], data["plan_file_updated"]) == (0, True)


# --- streams and signals ----------------------------------------------------------------------------


def shell(script: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script],
        cwd=cwd,
        env=environment({"RALPH": " ".join(RALPH), "MASON": MASON[0]}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("words", ["list", "list --json", "plan graph plan.md", "plan check plan.md --json"])
def test_a_reader_that_goes_away_is_no_failure(repo: Path, words: str) -> None:
    write(repo / "plan.md", GOOD)
    done = shell(f"$RALPH {words} | true; echo ${{PIPESTATUS[0]}}", repo)
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.parametrize("words", ["list", "list --json", "plan check plan.md", "validate plan.md --json"])
def test_a_disk_that_cannot_take_the_answer_is_a_failure(repo: Path, words: str) -> None:
    write(repo / "plan.md", GOOD)
    done = shell(f"$RALPH {words} >/dev/full", repo)
    assert done.returncode == 1
    assert "[IO.WRITE_FAILED]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("list >&-", 0),
        ("list --json >&-", 0),
        ("list --json <&- >&- 2>&-", 0),
        ("mason nope.md 2>&-", 1),
        ("mason nope.md --json >&-", 1),
        ("validate <&-", 1),
        ("list --json 2>&-", 0),
    ],
)
def test_closed_streams_do_not_change_how_it_ends(repo: Path, words: str, code: int) -> None:
    done = shell(f"$RALPH {words}", repo)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr


def test_a_title_that_the_terminal_cannot_show_does_not_end_the_program(repo: Path) -> None:
    write(repo / "plan.md", plan(sprint("1.1", "Größe → 日本 🚀")))
    env = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    for words in (["mason", "plan.md"], ["list"], ["plan", "graph", "plan.md"], ["list", "--json"]):
        ran = run(RALPH, *words, cwd=repo, env=env)
        assert ran.code == 0, ran.err


def left_in(pipe: int) -> int:
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]  # type: ignore[no-any-return]


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]


@pytest.mark.parametrize("words", [[*RALPH, "mason", "--json"], [*MASON]])
def test_ctrl_c_ends_with_130_and_changes_nothing(repo: Path, words: list[str]) -> None:
    """The plan is a pipe that the shell has opened: once it is empty, the command waits for the rest."""
    read, write_to = os.pipe()
    process = subprocess.Popen(
        [*words, f"/dev/fd/{read}"],
        pass_fds=[read],
        cwd=repo,
        env=environment({}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with os.fdopen(write_to, "wb", buffering=0) as plan_pipe, os.fdopen(read, "rb"):
        plan_pipe.write(b"x")
        while left_in(read) or state_of(process.pid) != "S":
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "EXECUTION.INTERRUPTED" in out
    assert "Traceback" not in err
    assert sorted(entry.name for entry in repo.iterdir()) == [".git", "README.md"]
