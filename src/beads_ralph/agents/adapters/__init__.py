"""One module per agent CLI: its command line, and how its output is read. Adapters do not know
one another.
"""
