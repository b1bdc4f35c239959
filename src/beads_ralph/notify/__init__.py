"""Telling a person what needs them: which events are worth a message, and the ways it is sent.

Reads the journal and sends text without secrets. A receiver that is slow or gone never holds up a run.
"""
