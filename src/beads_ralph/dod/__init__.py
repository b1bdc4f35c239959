"""Ralph beads: an intent and the commands that prove it done; their executor, and gates."""
