"""The command line: one short function a command; answers, errors and exit codes in one place."""
