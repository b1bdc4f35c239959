"""Stands in for an agent CLI that prints much: `python -I -S bench/print_events.py RECORDED MEGABYTES`.

Prints the recorded events over and over until there are so many megabytes, and the last one once, at the
end, so that the call ends well. "one-line" instead of a file prints a single line without an end.
"""

import sys

recorded, megabytes = sys.argv[1], int(sys.argv[2])
size, printed = megabytes * 1_000_000, 0
if recorded == "one-line":
    rows, last = [b'{"type": "' + b"word " * 20_000], b""
else:
    with open(recorded, "rb") as file:  # noqa: PTH123 - pathlib costs more memory than all of this
        *rows, last = file.readlines()
block = b"".join(rows)
while printed < size:
    printed += sys.stdout.buffer.write(block)
sys.stdout.buffer.write(last)
