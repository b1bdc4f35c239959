"""Why an attempt came to nothing: a fixed list of words, so that they can be counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

Reason = Literal[
    "agent-timeout",
    "agent-crash",
    "agent-limit",
    "agent-auth",
    "agent-server",
    "agent-refused",
    "agent-unfinished",
    "agent-output-limit",
    "agent-memory",
    "verifier-failed",
    "verifier-timeout",
    "evidence-missing",
    "qa-failed",
    "qa-stop",
    "scrum-master-failed",
    "nothing-changed",
    "branch-changed",
    "merge-conflict",
    "lost-changes",
    "proposal-failed",
    "budget-used-up",
    "deadline-passed",
    "interrupted",
    "disk-full",
    "infrastructure",
    "other",
]
MEANINGS: Final[Mapping[Reason, str]] = {
    "agent-timeout": "the agent took longer than it may, and was ended",
    "agent-crash": "the agent ended with an exit code other than 0, or by a signal",
    "agent-limit": "a rate or usage limit; the attempt goes on when it lifts",
    "agent-auth": "nobody is signed in to the agent's program",
    "agent-server": "the server behind the agent failed, again and again",
    "agent-refused": "the program or its model would not do it",
    "agent-unfinished": "the agent ended without its last word",
    "agent-output-limit": "the agent printed more than it may, and was ended",
    "agent-memory": "the agent used more memory than it may, and was ended",
    "verifier-failed": "a command that must succeed did not",
    "verifier-timeout": "a command that must succeed took longer than it may",
    "evidence-missing": "the evidence that the bead asks for is not there",
    "qa-failed": "a QA agent found something to mend",
    "qa-stop": "a QA agent said stop, which ends the run",
    "scrum-master-failed": "a scrum-master agent did not succeed, or gave no result that can be read",
    "nothing-changed": "the branch holds no work",
    "branch-changed": "the worktree, its branch or its history is not what was worked on",
    "merge-conflict": "branches could not be brought together",
    "lost-changes": "changes of a merged branch are gone",
    "proposal-failed": "the work is proven, but no pull request could be opened for it",
    "budget-used-up": "the time, money or tokens of the bead were used up",
    "deadline-passed": "the moment by which it had to be done has passed",
    "interrupted": "the run was cancelled or killed; the attempt begins again",
    "disk-full": "nothing more could be written",
    "infrastructure": "something that every bead needs has failed; the attempt begins again",
    "other": "anything else; what it was is in `extra.failure_detail`",
}
FOREIGN: Final = (
    "session-exited-without-markers",
    "watcher-signal-interrupted",
    "disk-space-exhausted",
    "tmux-launch-failed",
    "max-retries-reached",
)
"""What dispatchers that write the same records say besides, and `watch-timeout-<seconds>s`."""

REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
PATTERN: Final = rf"^({'|'.join((*REASONS, *FOREIGN, 'watch-timeout-[0-9]+s'))})$"
UNJUDGED: Final[frozenset[str | None]] = frozenset(
    {
        "agent-limit",
        "agent-auth",
        "agent-server",
        "proposal-failed",
        "interrupted",
        "disk-full",
        "infrastructure",
    }
)
"""Ends that say nothing of the work, where no result says otherwise: the same attempt begins again."""

EXHAUSTED: Final[tuple[Reason, ...]] = ("budget-used-up", "deadline-passed")
"""Ends of a bead, not only of an attempt: it may not have another one."""

TROUBLES: Final[Mapping[str, Reason]] = {
    "limit": "agent-limit",
    "auth": "agent-auth",
    "server": "agent-server",
    "refused": "agent-refused",
    "unfinished": "agent-unfinished",
}
CUT_SHORT: Final[Mapping[str, Reason]] = {
    "timeout": "agent-timeout",
    "output": "agent-output-limit",
    "memory": "agent-memory",
}
CHECKS: Final[Mapping[tuple[str, str], Reason]] = {
    ("verifier", "fail"): "verifier-failed",
    ("verifier", "stop"): "verifier-failed",
    ("qa", "fail"): "qa-failed",
    ("qa", "stop"): "qa-stop",
    ("merge", "fail"): "lost-changes",
    ("git", "fail"): "branch-changed",
}
