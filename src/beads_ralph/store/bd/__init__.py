"""The bd store: beads in the database of the real bd, reached through its command line only."""
