"""Everything that starts, watches and ends processes: jobs, executors, sandbox, process tree, ports.

The only room that may start a process. It knows nothing of beads.
"""
