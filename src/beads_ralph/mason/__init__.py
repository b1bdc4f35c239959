"""Plan → beads → store: build makes the beads, load puts them in, diff compares an edited plan."""
