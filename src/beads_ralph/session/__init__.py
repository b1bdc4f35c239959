"""One bead's work: worktree → dev → checks → feedback → pull request. Plain data in, plain data out."""

from beads_ralph.session.order import Keep, Order, Outcome, Tools
from beads_ralph.session.session import work

__all__ = ["Keep", "Order", "Outcome", "Tools", "work"]
