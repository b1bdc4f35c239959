"""A bead and its parts as typed values: model, field types, sprint ids, items, personas, schema, and what a
run knows of it: agent calls, usage, evidence, verdicts.

Pure: nothing here reads a clock, a file outside its arguments, or a process. Everybody may import it.
"""
