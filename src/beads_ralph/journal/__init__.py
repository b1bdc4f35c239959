"""The facts of a run and what is derived from them: events, run folders, records.

One writer appends events; every view reads them. Nothing here decides anything.
"""
