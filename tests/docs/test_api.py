"""The public API: cheap to import, complete, and as docs/reference/api.md shows it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from markdown_it import MarkdownIt

import beads_ralph
from tests.cli.running import ralph

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"
PLAN = """\
### Sprint 1.1: Data model
**Tasks**:
- Write it
"""
AGENT = """\
#!/bin/sh
if [ "$BEADS_RALPH_ROLE" = qa ]; then
    printf '```json\\n{"status": "pass", "message": "fine"}\\n```\\n'
else
    echo done > done.txt
fi
"""


def python(code: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_runs_and_prints_what_is_shown(repo: Path) -> None:
    agent = repo.parent / "agent.sh"
    agent.write_text(AGENT, encoding="utf-8")
    agent.chmod(0o755)
    (repo / "plan.md").write_text(PLAN, encoding="utf-8")
    assert ralph("init", cwd=repo).code == 0
    with (repo / "beads-ralph.yaml").open("a", encoding="utf-8") as file:
        file.write(f"  default_executable: {agent}\nmin_free_gb: 0\n")
    fences = [token for token in MarkdownIt().parse(PAGE.read_text("utf-8")) if token.type == "fence"]
    code, shown = ([f.content for f in fences if f.info == info] for info in ("python run", "text output"))
    assert python("".join(code), repo) == "".join(shown)


def test_every_name_is_there_and_documented() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in beads_ralph.__all__:
        found = getattr(beads_ralph, name)
        assert getattr(found, "__name__", "Event") == name  # Event is a union, which has no name
        assert f"`{name}" in page


def test_importing_it_loads_nothing_of_it(tmp_path: Path) -> None:
    code = (
        "import sys, beads_ralph; print(*(name for name in sys.modules if name.startswith('beads_ralph.')))"
    )
    assert python(code, tmp_path).split() == []
    assert "pydantic" not in python("import sys, beads_ralph; print(*sys.modules)", tmp_path)
