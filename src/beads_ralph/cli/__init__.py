"""The command line: each command parses its words, calls the program, and prints the answer.

No rule of the domain belongs here. Nothing but the console scripts imports it.
"""
