"""What run and result records teach: figures, advice, a page, and a forecast."""

from beads_ralph.report.tally import Tally, tallied

__all__ = ["Tally", "tallied"]
