"""One module per agent CLI: its command line, and how its output is read; `AGENT` is its adapter.

The file makes the program known; no other line is needed. Adapters do not know one another.
"""
