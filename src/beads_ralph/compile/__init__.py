"""Sprints and formulas into beads, and beads into a store: build, compare, load, pour.

Pure up to `load` and `pour`, which talk to a store through its protocol only.
"""
