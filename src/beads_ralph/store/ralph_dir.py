"""Kept for the modules beside it: the folder of our own files lies below the stores now."""

from beads_ralph.ralph_dir import NAME, check_ralph_dir, ralph_dir

__all__ = ["NAME", "check_ralph_dir", "ralph_dir"]
