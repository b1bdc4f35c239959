"""doctor looks at the engine: what is wrong with the server is said with what to do, and nothing hangs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beads_ralph.engine.temporal import connection
from beads_ralph.errors import RalphError
from tests.cli.running import ralph, write
from tests.engine.servers import TemporalServer, free_port


def engine_check(repo: Path, settings: str) -> dict[str, Any]:
    write(repo / "beads-ralph.yaml", settings)
    checks: list[dict[str, Any]] = ralph("doctor", "--json", cwd=repo).data["checks"]
    (found,) = [check for check in checks if check["name"] == "engine"]
    return found


def test_sessions_on_this_machine_need_no_server(repo: Path) -> None:
    write(repo / "beads-ralph.yaml", "engine: local\n")
    checks = ralph("doctor", "--json", cwd=repo).data["checks"]
    assert "engine" not in {check["name"] for check in checks}


def test_a_wrong_address_is_named_with_how_to_start_a_server(repo: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    found = engine_check(repo, f"engine: temporal\ntemporal: {{address: '{address}'}}\n")
    assert (found["status"], found["required"]) == ("missing", True)
    assert address in found["detail"]
    assert "beads-ralph engine start" in found["action"]


@pytest.mark.parametrize("version", ["1.24.9", "0.28.0"])
def test_an_old_server_is_refused(version: str) -> None:
    with pytest.raises(RalphError, match=f"is {version}; 1.25 or newer is needed"):
        connection._require_version(version, "there:7233")


def test_a_server_without_workers_or_without_the_namespace(
    repo: Path, temporal_server: TemporalServer
) -> None:
    place = f"engine: temporal\ntemporal: {{address: '{temporal_server.address}'"
    idle = engine_check(repo, f"{place}}}\n")
    assert (idle["status"], idle["required"]) == ("unknown", False)
    assert "no worker has asked for beads of beads-ralph" in idle["detail"]
    assert idle["version"].startswith("1.")
    wrong = engine_check(repo, f"{place}, namespace: nowhere}}\n")
    assert (wrong["status"], wrong["required"]) == ("missing", True)
    assert "has no namespace nowhere" in wrong["detail"]
