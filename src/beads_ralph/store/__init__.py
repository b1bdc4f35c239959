"""Where beads live: one module per kind of store."""
