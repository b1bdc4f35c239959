"""Real repositories for the git tests, made in a few words."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(where: Path, *words: str) -> str:
    """Run git and return what it printed; a failure fails the test with git's own words."""
    done = subprocess.run(
        ["git", *words], cwd=where, capture_output=True, text=True, timeout=60, check=False, errors="replace"
    )
    assert done.returncode == 0, f"git {' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout.strip("\n")


def commit(where: Path, files: dict[str, str | bytes | None], message: str = "change") -> str:
    """Write (or, with None, delete) files and commit everything; the commit."""
    for name, content in files.items():
        file = where / name
        if content is None:
            file.unlink()
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    git(where, "add", "--all")
    git(where, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(where, "rev-parse", "HEAD")


def on_branch(repo: Path, name: str, files: dict[str, str | bytes | None], start: str = "main") -> str:
    """A branch with one commit on top of `start`; the main checkout goes back to main."""
    git(repo, "switch", "--quiet", "--create", name, start)
    made = commit(repo, files, f"work on {name}")
    git(repo, "switch", "--quiet", "main")
    return made


def lines(*changes: str, count: int = 30) -> str:
    """Thirty numbered lines; `5:text` replaces line 5, `+5:text` adds below it, `-5:` removes it."""
    rows: dict[int, list[str]] = {number: [f"line {number}"] for number in range(1, count + 1)}
    for change in changes:
        place, _colon, text = change.partition(":")
        number = int(place.lstrip("+-"))
        if place.startswith("-"):
            rows[number] = []
        else:
            rows[number] = [*rows[number], text] if place.startswith("+") else [text]
    return "".join(f"{row}\n" for number in sorted(rows) for row in rows[number])
