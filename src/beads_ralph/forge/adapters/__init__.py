"""One module per forge: `FORGE` makes it, `serves` says whether a remote belongs to it.

The file makes the forge known; no other line is needed. Forges do not know one another.
"""
