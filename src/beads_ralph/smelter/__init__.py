"""The smelter: a formula and values for its variables → beads and items in the store."""
