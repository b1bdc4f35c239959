"""beads-ralph.yaml: every setting, how the file is read, and its JSON Schema.

Settings are values; what follows from them is decided by whoever uses them.
"""
