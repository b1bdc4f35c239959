"""Drafts of beads: what is known besides the words of a plan or a formula, and how the two become JSON."""
