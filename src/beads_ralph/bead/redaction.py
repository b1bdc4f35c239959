"""Secrets stay out of what we write: values that we know, and texts that have the shape of a token."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

Value = TypeVar("Value")

REDACTED: Final = "[redacted]"
SHORTEST: Final = 6
COMMON: Final = frozenset(
    {"always", "default", "develop", "development", "disabled", "enabled", "failed", "latest", "master"}
    | {"normal", "passed", "production", "release", "staging", "testing", "verbose", "warning"}
)
"""Values that say nothing, and that other texts hold, too; whatever is shorter is left alone anyway."""
KEPT: Final = frozenset(
    {"kind", "at", "run_id", "bead", "bead_id", "id", "team", "branch", "target", "commit"}
    | {"ruling", "status", "outcome", "role", "program", "model", "agent", "agent_path"}
)
"""Fields that we fill in ourselves and find things by; no agent says what stands there."""
FREE: Final = frozenset({"details", "extra"})
"""Whatever is in these was named by somebody else."""
SHAPES: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[^-]|-(?!----))*(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?"
    r"|(?<![A-Za-z0-9])(?:"
    r"gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}"
    r"|AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}"
    r"|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,}|glpat-[A-Za-z0-9_-]{20,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"
    r")"
    # In these only what follows the name is secret.
    r"|(?i:(?<=bearer )|(?<=basic ))[A-Za-z0-9._~+/=-]{16,}"
    r"|(?<=://)[^\s/:@'\"<>]{1,100}:[^\s/@'\"<>]{1,200}(?=@)"
    r"|(?i:(?P<name>aws_?secret_?(?:access_?)?key[\"']?\s{0,3}[=:]\s{0,3}[\"']?))[A-Za-z0-9/+=]{40}"
)
SECRET_NAME: Final = re.compile(r"(?i)(.*_)?(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)")
"""Variables that hold a secret, whether or not an agent may have them: what it finds, it may print."""

_known: list[re.Pattern[str]] = []


def know(environment: Mapping[str, str], named: Iterable[str], root: Path) -> None:
    """Redact the values of these variables from now on, and of all that are called a secret. A value that is
    a path, or part of where the repository is, names a place and hides nothing."""
    names = {*named, *(name for name in environment if SECRET_NAME.fullmatch(name))}
    values = {environment.get(name, "").strip() for name in names}
    secret = {value for value in values if _is_telling(value) and value not in str(root)}
    spelled = secret | {json.dumps(value)[1:-1] for value in secret}
    longest_first = sorted(spelled, key=len, reverse=True)
    _known[:] = [re.compile("|".join(map(re.escape, longest_first)))] if spelled else []


def _is_telling(value: str) -> bool:
    if len(value) < SHORTEST or value.lower() in COMMON:
        return False
    return not (value.startswith("/") and os.path.exists(value))  # noqa: PTH110 - never raises


def redact(text: str) -> str:
    """The text without secrets."""
    for known in _known:
        text = known.sub(REDACTED, text)
    return SHAPES.sub(lambda found: (found["name"] or "") + REDACTED, text)


def redacted(value: Value) -> Value:
    """The same for every text in a value: in lists, in mappings with their keys, in dataclasses."""
    return _redacted(value, KEPT)  # type: ignore[no-any-return]


def _redacted(value: Any, kept: frozenset[str]) -> Any:
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {_redacted(key, kept): _field(key, one, kept) for key, one in value.items()}
        case list() | tuple() if not hasattr(value, "_fields"):
            return type(value)(_redacted(one, kept) for one in value)
        case _ if is_dataclass(value) and not isinstance(value, type):
            held = {one.name: getattr(value, one.name) for one in fields(value)}
            clean = {name: _field(name, one, kept) for name, one in held.items()}
            changed = {name: one for name, one in clean.items() if one != held[name]}
            return replace(value, **changed) if changed else value
        case _:
            return value


def _field(name: object, value: Any, kept: frozenset[str]) -> Any:
    is_kept = name in kept and isinstance(value, str)
    return value if is_kept else _redacted(value, frozenset() if name in FREE else kept)
