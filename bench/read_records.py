"""Reads and parses every record below the current folder's `state/`, and does nothing with them."""

import json
import os
from pathlib import Path

if __name__ == "__main__":
    for folder in ("runs", "results"):
        with os.scandir(Path("state") / folder) as entries:
            names = [entry.path for entry in entries]
        for name in names:
            with open(name, "rb") as file:  # noqa: PTH123 - the plainest way, and the fastest of them
                json.loads(file.read())
