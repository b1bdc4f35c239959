"""One bead's work: worktree → dev → checks → feedback → pull request. Plain data in, plain data out."""

from beads_ralph.session.host import SessionHost
from beads_ralph.session.order import Order, Outcome, RunSession, Tools
from beads_ralph.session.session import in_process, work

__all__ = ["Order", "Outcome", "RunSession", "SessionHost", "Tools", "in_process", "work"]
