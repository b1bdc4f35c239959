"""What an agent's process knows: a clean environment, its task, and no credentials of ours.

Nothing is inherited but what a program needs to run at all, what its profile passes on, and what the user
names in `agent_env`. On top come the variables that the user gave the persona, those of the task, and last
these, which nobody can override:

    BEADS_RALPH_BEAD      the bead's id
    BEADS_RALPH_ROLE      dev, qa, merge or scrum-master
    BEADS_RALPH_AGENT     the persona's name, such as qa-security
    BEADS_RALPH_ATTEMPT   1 for the first try
    BEADS_RALPH_WORKTREE  where to work; also the current directory
    BEADS_RALPH_BRANCH    the branch that is checked out there
    BEADS_RALPH_RUN_ID    the run that the work belongs to
    BEADS_RALPH_MODEL     the model that the persona asks for
    BEADS_RALPH_SESSION   the session to go on with, or a fresh id
    BEADS_RALPH_RESUME    1 where it is one to go on with, empty for a fresh one
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from beads_ralph.errors import Code, Fault, gathered
from beads_ralph.process.jobs import RUN_ID, Job

if TYPE_CHECKING:
    from pathlib import Path

    from beads_ralph.agents.protocol import AgentTask
    from beads_ralph.process.jobs import JobReport, Transcript

INHERITED: Final = re.compile(
    r"PATH|HOME|LANG|LC_[A-Z]+|TERM|TMPDIR|TZ|SHELL|USER|LOGNAME|GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)"
)
OF_THE_STORE: Final = re.compile(r"BD_.*|BEADS_(?!RALPH_).*")
OF_THE_FORGE: Final = re.compile(r"(GH|GITHUB)(_ENTERPRISE)?_TOKEN|(GITLAB|GL|GITEA|BITBUCKET)_TOKEN")
OF_A_SESSION: Final = re.compile(
    # By these a CLI tells the programs that it starts whose children they are. An agent of ours is nobody's:
    # with them it would report to a session that is not its own, or refuse to start inside of one.
    r"CLAUDECODE|CLAUDE_CODE_(ENTRYPOINT|SSE_PORT|SESSION_.*|REMOTE.*|CONTAINER_ID|CHILD_.*|.*FILE_DESCRIPTOR)"
    r"|CLAUDE_(SESSION_ID|PROJECT_DIR|ENV_FILE|PLUGIN_.*|AGENT_SDK_.*)|MCP_SESSION_.*"
    r"|CODEX_(SANDBOX.*|THREAD_ID|CI|SESSION_.*|INTERNAL_.*|MANAGED_.*|COMPANION_.*)"
    r"|GEMINI_CLI|GEMINI_CLI_(IDE_.*|NO_RELAUNCH|SESSION_.*|ACTIVITY_.*)|QWEN_CODE(_IDE_.*|_NO_RELAUNCH)?"
    r"|OPENCODE|OPENCODE_(PID|CALLER|CLIENT|RUN_ID|PROCESS_ROLE|SERVER.*|.*SESSION.*)"
    r"|GOOSE_(TERMINAL|SERVER_.*|PORT|.*SESSION.*)|AGENT|AGENT_SESSION_ID|AI_AGENT"
    r"|COPILOT_(CLI|RUN_APP|LOADER_PID|AGENT_.*|.*SESSION.*)"
    r"|CURSOR_(AGENT|TRACE_ID|.*SESSION.*)|VSCODE_.*IPC.*|TMUX|TMUX_PANE"
)
OF_A_HOME: Final = re.compile(
    # Where a program looks for its settings before it looks below HOME.
    r"XDG_(CONFIG|DATA|STATE|CACHE|RUNTIME)_(HOME|DIR)|CLAUDE_CONFIG_DIR|CODEX_HOME|GEMINI_CLI_HOME"
    r"|OPENCODE_CONFIG(_DIR)?|GOOSE_PATH_ROOT|COPILOT_HOME"
)
OF_AN_ADMINISTRATOR: Final = re.compile(r"[A-Z0-9_]+_ADMIN_(API_)?KEY")
NETWORK: Final = (
    # How the machine reaches a model's server, and where programs keep what is theirs.
    r"(HTTPS?|ALL|NO)_PROXY|(https?|all|no)_proxy|SSL_CERT_(FILE|DIR)|NODE_EXTRA_CA_CERTS"
    r"|XDG_(CONFIG|DATA|STATE|CACHE)_HOME"
)
WITHHELD: Final = (
    (re.compile("BEADS_RALPH_.*"), "is set by beads-ralph itself"),
    (OF_THE_STORE, "belongs to the store, which agents do not touch"),
    (OF_THE_FORGE, "is a token of the forge, where only beads-ralph opens pull requests"),
    (OF_AN_ADMINISTRATOR, "is an administrator's key, which no agent has a use for"),
    (OF_A_SESSION, "marks the children of another agent's session"),
)
UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SESSION: Final = "BEADS_RALPH_SESSION"
SESSIONS: Final = uuid.uuid5(uuid.NAMESPACE_URL, "beads-ralph:session")


def of_task(
    task: AgentTask, transcript: Transcript, inherited: Mapping[str, str], passes: str = ""
) -> dict[str, str]:
    """The whole environment of an agent's process; `passes` is what its program may inherit besides."""
    own = dict(task.spec.env or {})
    if faults := [fault for name, value in own.items() if (fault := _fault(task, name, value))]:
        raise gathered(faults, f"the env of agent {task.spec.agent}")
    kept = of_home(passed_on(inherited, task.inherits, passes), task.home, task.inherits)
    return {**task.committer, **kept, **own, **task.env, **_facts(task, transcript)}


def of_home(kept: Mapping[str, str], home: Path | None, named: Collection[str]) -> dict[str, str]:
    """The same with another HOME, where there is one. What leads back to the user's own settings goes, since
    they would be found all the same; what is named is wanted."""
    if home is None:
        return dict(kept)
    led_back = [name for name in kept if OF_A_HOME.fullmatch(name) and name not in named]
    return {**{name: value for name, value in kept.items() if name not in led_back}, "HOME": str(home)}


def passed_on(inherited: Mapping[str, str], named: Collection[str] = (), passes: str = "") -> dict[str, str]:
    """The part of our own environment that a process may have: the harmless, what the user names, and what
    its program needs; but nothing that is the store's, the forge's or another session's."""
    wanted = re.compile(passes or r"(?!)")  # which nothing matches
    return {
        name: value
        for name, value in inherited.items()
        if INHERITED.fullmatch(name)
        or (not withheld(name) and (name in named or wanted.fullmatch(name) is not None))
    }


def withheld(name: str) -> str:
    """Why nobody passes this variable on to an agent; empty where there is no reason."""
    return next((why for pattern, why in WITHHELD if pattern.fullmatch(name)), "")


def refuse_names(names: Iterable[str]) -> None:
    """CONFIG.INVALID for what `agent_env` may not name, before anything runs."""
    faults = []
    for name in names:
        wrong = "is not the name of a variable" if NAME.fullmatch(name) is None else withheld(name)
        if wrong:
            action = f"Remove {name} from agent_env in beads-ralph.yaml"
            text = f"agent_env: {name!r} {wrong}"
            faults.append(Fault(Code.CONFIG_INVALID, text, field="agent_env", suggested_action=action))
    if faults:
        raise gathered(faults, "agent_env")


def _facts(task: AgentTask, transcript: Transcript) -> dict[str, str]:
    return {
        "BEADS_RALPH_BEAD": task.bead_id,
        "BEADS_RALPH_ROLE": task.role,
        "BEADS_RALPH_AGENT": PurePosixPath(task.spec.agent).stem,
        "BEADS_RALPH_ATTEMPT": str(task.attempt),
        "BEADS_RALPH_WORKTREE": str(task.cwd),
        "BEADS_RALPH_BRANCH": task.branch,
        RUN_ID: task.run_id,
        "BEADS_RALPH_MODEL": task.model,
        SESSION: task.session_id or fresh_session(task, transcript),
        "BEADS_RALPH_RESUME": "1" if task.session_id else "",
    }


def fresh_session(task: AgentTask, transcript: Transcript) -> str:
    """A session id that no other call has: no two calls share a transcript. No chance in it, so that a
    command line is a plain function of its task."""
    facts = (task.run_id, task.bead_id, task.role, str(task.attempt), str(transcript.out))
    return str(uuid.uuid5(SESSIONS, "\0".join(facts)))


def known_session(session_id: str) -> str:
    """The session to go on with, for a CLI whose ids are UUIDs. Another's becomes one that it has never
    seen, so that it says so: as it stands it might be taken for a name or for a flag."""
    return session_id if UUID.fullmatch(session_id) else str(uuid.uuid5(SESSIONS, session_id))


def session_of(task: AgentTask, transcript: Transcript) -> str:
    return known_session(task.session_id) if task.session_id else fresh_session(task, transcript)


def job_name(task: AgentTask, transcript: Transcript) -> str:
    """`agent-<bead>`: a bead's agents follow one another. QA agents run side by side, so theirs says more."""
    name = f"agent-{task.bead_id}"
    if task.role != "qa":
        return name
    return f"{name}-qa-{hashlib.sha256(str(transcript.out).encode()).hexdigest()[:6]}"


def job_of(
    task: AgentTask,
    transcript: Transcript,
    argv: tuple[str, ...],
    env: Mapping[str, str],
    stdin: str,
    files: Mapping[Path, str] | None = None,
    report: JobReport | None = None,
) -> Job:
    """An agent's process: what the adapter says, where and how long the task says."""
    return Job(
        argv=argv,
        cwd=task.cwd,
        env=env,
        stdin=stdin,
        timeout=task.timeout,
        name=job_name(task, transcript),
        transcript=transcript,
        files=files or {},
        report=report,
    )


# --- what a user may not give -------------------------------------------------------------------------


def _fault(task: AgentTask, name: str, value: str) -> Fault | None:
    """Only the harness writes to the store. A scrum-master agent opens its pull request itself, so the
    user may give it a token; no other agent has a use for one."""
    wrong = ""
    if NAME.fullmatch(name) is None or "\0" in value:
        wrong = "is not a name and value that a process can be given"
    elif OF_THE_STORE.fullmatch(name):
        wrong = "belongs to the store, which agents do not touch"
    elif OF_THE_FORGE.fullmatch(name) and task.role != "scrum-master":
        wrong = f"is a token of the forge, which a {task.role} agent has no use for"
    if not wrong:
        return None
    action = f"Remove it from the env of {task.spec.agent}"
    return Fault(Code.CONSTRAINT, f"env {name!r} {wrong}", field=f"env.{name}", suggested_action=action)
