"""One model of a call, of evidence and of a verdict: a field that is added there is everywhere."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from beads_ralph.bead.agent_call import DevCall, QACall
from beads_ralph.bead.evidence import Evidence, Verdict
from beads_ralph.bead.run_state import CheckResult, DevExecution, Kept, LastVerdict, QAExecution, TokenCounts
from beads_ralph.bead.usage import Usage
from tests.bead.samples import PROJECT

OLDER = {"agent_path", "cost_usd"}
"""Keys of a call that are older than its fields."""


@pytest.mark.parametrize(
    ("kind", "row", "besides"),
    [
        (DevCall, DevExecution, OLDER),
        (QACall, QAExecution, OLDER),
        (Evidence, CheckResult, set()),
        (Verdict, LastVerdict, set()),
        (Usage, TokenCounts, set()),
    ],
)
def test_a_row_of_the_run_state_has_the_fields_of_its_dataclass(
    kind: type, row: type[Kept], besides: set[str]
) -> None:
    own = {one.name for one in fields(kind)} - {"extra"}
    assert set(row.model_fields) == (own - {"agent"} if besides else own) | besides


# --- a field more, in one place -----------------------------------------------------------------------

USES = """
import json, sys
from pathlib import Path
from beads_ralph.bead import schema
from beads_ralph.bead.agent_call import AgentCall, DevCall
from beads_ralph.bead.evidence import Evidence, Verdict
from beads_ralph.bead.healing import healed
from beads_ralph.journal.events import AgentEnded
from beads_ralph.journal.journal import Journal, read
from beads_ralph.session.history import BeadHistory
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
from beads_ralph.store.protocol import Changes
from tests.beads import make_bead

place = Path(sys.argv[1])
call = AgentCall(attempt=1, role="dev", agent="a.md", started_at="2026-01-01T00:00:00Z", weather="rain")
journal = Journal(place / "events.jsonl", "r1")
journal.emit(AgentEnded(bead="bd-a", attempt=1, call=call))
journal.close()
(told,) = [event for event in read(place / "events.jsonl") if isinstance(event, AgentEnded)]
assert told.call.weather == "rain", "the journal"

history = BeadHistory(make_bead("bd-a"), "s")
history.dev.append(DevCall.of(call))
history.verdict = Verdict("fail", "no", [Evidence("check", "git", "", "", "fail", "no", weather="snow")])
store = EmbeddedStore(place)
store.create([make_bead("bd-a")])
store.update("bd-a", Changes(metadata=history.state().to_metadata()))
bead = store.show("bd-a")
assert bead.metadata.dev_calls[0].weather == "rain", "the store"
assert bead.metadata.verdict.evidence[0].weather == "snow", "the store"

said = json.loads(json.dumps(bead.to_json()))["metadata"]
assert said["dev_agent_executions"][0]["weather"] == "rain", "JSON"
assert said["last_verdict"]["evidence"][0]["weather"] == "snow", "JSON"

said["dev_agent_executions"][0]["weather"] = 7
assert healed(said).dropped == ("metadata.dev_agent_executions.0",), "it is held to its type"
assert "weather" in schema.json_schema("DevExecution")["properties"], "the published schema"
"""


def test_a_field_that_is_added_to_a_model_is_in_the_journal_the_store_and_json(tmp_path: Path) -> None:
    shutil.copytree(PROJECT / "src" / "beads_ralph", tmp_path / "src" / "beads_ralph")
    for name, before in {
        "agent_call": "    usage: Usage = UNKNOWN\n",
        "evidence": "    red_before: bool",
    }.items():
        path = tmp_path / "src" / "beads_ralph" / "bead" / f"{name}.py"
        text = path.read_text("utf-8")
        assert text.count(before) == 1
        path.write_text(text.replace(before, f'    weather: str = ""\n{before}'), "utf-8")
    place = tmp_path / "place"
    (place / ".ralph").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = [{str(tmp_path / 'src')!r}]\n{USES}", str(place)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
