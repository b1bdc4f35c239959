"""The embedded store: beads in one SQLite file, `.ralph/beads.db`, with nothing to install."""
