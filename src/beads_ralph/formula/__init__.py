"""Formulas: patterns of work with variables, written once and poured many times; pure."""
