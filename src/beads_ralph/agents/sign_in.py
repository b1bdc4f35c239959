"""Whether a program is signed in as agents would call it: by its keys and files, and by the provider that it
is set to use, which may want another key than the program usually does."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from beads_ralph.agents import environment
from beads_ralph.bead.model import AgentSpec
from beads_ralph.process.jobs import Profile

SignedIn = Literal["yes", "no", "unknown"]
OPENAI: Final = "openai"
CODEX_PROVIDER: Final = re.compile(r"""model_provider\s*=\s*["']?([^"']+)["']?""")
GOOSE_KEYS: Final[Mapping[str, str]] = {
    OPENAI: "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GOOGLE_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "groq": "GROQ_API_KEY",
    "xai": "XAI_API_KEY",
}
"""The key of each provider that goose knows, of those that want one and nothing else."""


@dataclass(frozen=True)
class SignIn:
    """What is known of it."""

    found: SignedIn
    action: str = ""
    """What to do where nobody is signed in."""
    provider: str = ""
    """Whose models it is set to use, where that is not the usual one."""


@dataclass(frozen=True)
class Caller:
    """How agents would call a program."""

    profile: Profile
    env: Mapping[str, str]
    """The variables that it would have."""
    options: Sequence[str] = ()
    withheld: Collection[str] = ()
    """Variables that are set here, and that it would not have."""

    @classmethod
    def of(
        cls,
        spec: AgentSpec,
        profile: Profile,
        named: Collection[str] = (),
        home: Path | None = None,
        inherited: Mapping[str, str] = os.environ,
    ) -> Caller:
        """As an agent's environment is made; `named` are the variables of the user's `agent_env`."""
        kept = environment.of_home(environment.passed_on(inherited, named, profile.passes), home, named)
        own = {**kept, **(spec.env or {})}
        return cls(profile, own, tuple(spec.options or ()), inherited.keys() - own.keys())

    @property
    def home(self) -> Path:
        return Path(self.env.get("HOME") or Path.home())

    def wants(self, key: str, provider: str) -> SignIn:
        """By one key, that of its provider."""
        if self.env.get(key):
            return SignIn("yes", provider=provider)
        what = f"Add {key} to agent_env in beads-ralph.yaml" if key in self.withheld else f"Set {key}"
        return SignIn("no", f"{what}: the provider {provider} of {self.profile.title} wants it", provider)


def look(name: str, caller: Caller) -> SignIn:
    """Look at the program that the adapter of that name plays."""
    return (LOOKS.get(name) or _usual)(caller)


def _usual(caller: Caller) -> SignIn:
    """By its keys and files. Elsewhere than on Linux a keychain may hold what no file shows."""
    profile = caller.profile
    files = ((caller.home / name).exists() for name in profile.credentials)
    if any(map(caller.env.get, profile.keys)) or any(files):
        return SignIn("yes")
    known = bool(profile.keys or profile.credentials)
    return SignIn("no", profile.sign_in) if known and sys.platform == "linux" else SignIn("unknown")


def _codex(caller: Caller) -> SignIn:
    """A provider of the user's own names the variable of its key."""
    settings = _read(Path(caller.env.get("CODEX_HOME") or caller.home / ".codex") / "config.toml", _toml)
    named = [found[1] for word in caller.options if (found := CODEX_PROVIDER.search(word))]
    provider = named[-1] if named else str(settings.get("model_provider") or OPENAI)
    if provider == OPENAI:
        return _usual(caller)
    providers = settings.get("model_providers")
    own = providers.get(provider) if isinstance(providers, dict) else None
    key = own.get("env_key") if isinstance(own, dict) else None
    return caller.wants(key, provider) if isinstance(key, str) else SignIn("unknown", provider=provider)


def _goose(caller: Caller) -> SignIn:
    """It has no provider of its own: another one's key signs nobody in."""
    folder = Path(caller.env.get("XDG_CONFIG_HOME") or caller.home / ".config") / "goose"
    settings = _read(folder / "config.yaml", yaml.safe_load)
    said = settings.get("GOOSE_PROVIDER") or settings.get("active_provider")
    provider = str(caller.env.get("GOOSE_PROVIDER") or said or "")
    if not provider:
        return SignIn("no", caller.profile.sign_in)
    key = GOOSE_KEYS.get(provider)
    if key is None:
        return SignIn("unknown", provider=provider)
    kept = key in settings or key in _read(folder / "secrets.yaml", yaml.safe_load)
    if kept:
        return SignIn("yes", provider=provider)
    keyring = "DBUS_SESSION_BUS_ADDRESS" in caller.env or sys.platform != "linux"
    return SignIn("unknown", provider=provider) if keyring else caller.wants(key, provider)


def _toml(text: str) -> Any:
    return tomllib.loads(text)


def _read(path: Path, parsed: Callable[[str], Any]) -> Mapping[str, Any]:
    """Nothing where it is not there, or the program itself will complain about it."""
    try:
        said = parsed(path.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


LOOKS: Final[Mapping[str, Callable[[Caller], SignIn]]] = {"codex": _codex, "goose": _goose}
"""By adapter, where the keys and files of its profile do not say it."""
