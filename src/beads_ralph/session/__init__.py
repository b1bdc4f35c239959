"""One bead's work: worktree → developer → checks → feedback → pull request. Plain data in, plain data out.

It holds no handle of the loop and imports no adapter: whoever runs it gives it both through protocols.
"""

from beads_ralph.session.order import Order, Outcome, RunSession, SessionHost, Tools
from beads_ralph.session.session import in_process, work

__all__ = ["Order", "Outcome", "RunSession", "SessionHost", "Tools", "in_process", "work"]
