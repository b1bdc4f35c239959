"""Run and result records: what was tried at each bead, by whom, and how it ended."""

from beads_ralph.journal.records.folder import StateFolder
from beads_ralph.journal.records.keeper import Keeper
from beads_ralph.journal.records.model import ResultRecord, RunRecord, json_schema
from beads_ralph.journal.records.reader import Attempt, read_all

__all__ = ["Attempt", "Keeper", "ResultRecord", "RunRecord", "StateFolder", "json_schema", "read_all"]
