"""Agent programs: the contract of an adapter, the registry, how replies and verdicts are read.

A new program is one module in `adapters/`. Adapters turn a task into a command line and output into a reply;
they start nothing. Sessions and `exec` call them through the protocol.
"""
