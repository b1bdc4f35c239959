"""The bead schema under the names of the design documents: `from bead_schema import BeadRalphBead`."""

from _project import use_project

use_project()

from beads_ralph.bead.legacy import LegacyBead, LegacyMetadata, QAAgent
from beads_ralph.bead.model import (
    AgentSpec,
    Bead,
    Dod,
    Metadata,
    QAOutput,
    Verifier,
)
from beads_ralph.bead.run_state import DevExecution, QAExecution, QAResult, ScrumResult
from beads_ralph.plan.parse import annotate_plan_with_bead_ids

BeadRalphBead = Bead
BeadMetadata = Metadata

__all__ = [
    "AgentSpec",
    "BeadMetadata",
    "BeadRalphBead",
    "DevExecution",
    "Dod",
    "LegacyBead",
    "LegacyMetadata",
    "QAAgent",
    "QAExecution",
    "QAOutput",
    "QAResult",
    "ScrumResult",
    "Verifier",
    "annotate_plan_with_bead_ids",
]
