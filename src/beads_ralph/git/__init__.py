"""git through its own CLI: commands, refs, worktrees, checkouts, merges and what they lose.

Knows repositories, not sessions or stores.
"""
