"""The formula language: patterns of work with variables, read, checked, rendered, and found in plans.

Pure. What becomes of a rendered formula (beads, a pour into a store) belongs to `compile`.
"""
