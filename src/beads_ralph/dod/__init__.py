"""Ralph beads as files: an intent and the commands that prove it done; their executor, and health gates.

No plan and no store is needed here. The commands `exec`, `import`, `export` and `gate` call it, and the loop
asks it for gates.
"""
