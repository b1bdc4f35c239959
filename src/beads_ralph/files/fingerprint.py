"""A hash of our own source: what one version has noted down as sound, another one looks at again."""

from __future__ import annotations

import sys
from functools import cache
from hashlib import blake2b
from pathlib import Path


@cache
def fingerprint(*rooms: str) -> str:
    """Of the modules in these rooms; empty where their source cannot be read."""
    package = Path(__file__).parents[1]
    found = blake2b(sys.version.encode(), digest_size=16)
    try:
        for room in rooms:
            files = sorted(path for path in (package / room).iterdir() if path.suffix == ".py")
            for path in files:
                found.update(path.read_bytes())
    except OSError:
        return ""
    return found.hexdigest() if files else ""
