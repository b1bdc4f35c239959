"""A setting changed in the text of the file: one line of it, and everything else as the user wrote it."""

from __future__ import annotations

import re
from typing import Any, Final

from beads_ralph.config.model import SHORTCUTS
from beads_ralph.config.read import of_text
from beads_ralph.errors import Code, RalphError

LINE: Final = re.compile(r"^(?P<key>\s*[^\s:#]+\s*:[ \t]*)(?P<value>[^#\n]*?)(?P<rest>[ \t]*(?:#.*)?)$")


def with_setting(text: str, key: str, value: Any) -> str:
    """The text with that value. Refused where it would not count."""
    rows, lines = text.splitlines(), of_text(text).lines
    said = _written(value)
    if key in lines:
        found = LINE.match(rows[lines[key] - 1])
        if found is None or (found["value"] and found["value"][0] in "[{|>&"):
            raise _by_hand(key, value)
        rows[lines[key] - 1] = f"{found['key'].rstrip()} {said}{found['rest']}"
    else:
        short = next((name for name, full in SHORTCUTS.items() if full == key), key)
        rows += [f"{short}: {said}"]
    new = "\n".join(rows) + "\n"
    if setting_of(of_text(new).config, key) != value:
        raise _by_hand(key, value)
    return new


def setting_of(config: Any, key: str) -> Any:
    """The value of a key in full, such as `plan.rig`."""
    for name in key.split("."):
        config = getattr(config, name)
    return config


def _written(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def _by_hand(key: str, value: Any) -> RalphError:
    action = f"Set {key}: {_written(value)} in the file yourself"
    return RalphError(Code.CONFIG_INVALID, f"{key} cannot be changed line by line", suggested_action=action)
