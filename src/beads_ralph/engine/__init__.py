"""Sessions on other machines: the order goes out, events, questions, output and the outcome come back.

The loop is the same wherever its sessions run; this room is the `RunSession` that sends them elsewhere, and
the worker that takes them there. What knows the server lies in `temporal/`, and is imported by nobody who
does not use it. Commits travel by the git remote, guarded by a fence.
"""
