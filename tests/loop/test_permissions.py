"""What agents may do without being asked is said before they start, and can be changed (Q12)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agents.running import executable
from tests.loop.plans import Project, sprint

SKIP = "--dangerously-skip-permissions"
DONE = json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "Done."})
CLAUDE = f"""#!/bin/sh
[ "$*" = --version ] && echo 2.1.325 && exit
cat > /dev/null
printf '%s\\n' "$@" > "$0.words"
echo 1 > one.txt && git add one.txt && git commit --quiet --message One
echo '{DONE}'
"""


@pytest.mark.parametrize("options", [None, ["--permission-mode=acceptEdits"]])
def test_skipped_permissions_are_told_at_the_start(
    repo: Path, tmp_path: Path, options: list[str] | None
) -> None:
    program = executable(tmp_path / "claude", CLAUDE)
    project = Project.make(
        repo,
        sprint("1.1", "One"),
        plan_settings={"dev_agents": [{"agent": "claude", "executable": str(program)}]},
        agent_defaults={"default_options": [SKIP] if options is None else options},
    )
    ran = project.ralph("run", "plan.md")
    assert ran.code == 0, ran.out + ran.err
    note = f"note: {program} runs with {SKIP}"
    assert (note in ran.err) == (options is None)
    words = (tmp_path / "claude.words").read_text("utf-8").splitlines()
    assert "--permission-mode=acceptEdits" in words or options is None
    assert note not in project.ralph("run", "plan.md", "--json").err
