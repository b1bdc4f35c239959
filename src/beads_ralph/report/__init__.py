"""What runs and records teach: figures, advice, forecasts, and pages to look at.

It reads facts and changes nothing.
"""

from beads_ralph.report.tally import Tally, tallied

__all__ = ["Tally", "tallied"]
