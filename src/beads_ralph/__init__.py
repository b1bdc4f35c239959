"""Runs a plan of beads through Ralph loops."""

__version__ = "0.1.0"
