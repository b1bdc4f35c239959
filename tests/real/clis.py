"""The real agent CLIs: where they are, and the settings that lead each of them to the scripted model.

Settings that a CLI reads from its environment are in `Cli.env`; the others are files in its home. None of it
is given on the command line, so that an adapter's own command line is what a test runs.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DEFAULT = ("claude", "codex", "gemini", "goose")
NIGHTLY = ("opencode", "copilot")
KEY = "dummy"
MODEL = "mock-model"
# gemini's shell hides the user's git settings, and with them who commits.
IDENTITY = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Test Author"), ("EMAIL", "author@example.com"))
}

CODEX = """\
model = "{model}"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{base}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 1
stream_max_retries = 1

[analytics]
enabled = false

[features]
plugins = false
"""
GEMINI = {
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False, "maxAttempts": 2},
    "telemetry": {"enabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
}


@dataclass(frozen=True)
class Cli:
    """One CLI, ready to run against the scripted model."""

    name: str
    program: Path
    """In a folder with nothing else in it, which may be put on PATH."""
    home: Path
    env: dict[str, str]
    """All that it needs besides PATH; HOME is among it."""

    def environment(self) -> dict[str, str]:
        """The whole environment of a bare run; what else the machine has set stays out of it."""
        paths = (str(self.program.parent), os.environ.get("PATH", os.defpath))
        kept = {
            name: os.environ[name] for name in ("LANG", "TZ", "BEADS_RALPH_TEST_ID") if name in os.environ
        }
        return {**kept, **IDENTITY, **self.env, "PATH": os.pathsep.join(paths)}


def claude(home: Path, base: str) -> dict[str, str]:
    del home
    return {
        "ANTHROPIC_BASE_URL": base,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }


def codex(home: Path, base: str) -> dict[str, str]:
    settings = home / ".codex" / "config.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(CODEX.format(model=MODEL, base=base), encoding="utf-8")
    return {"SCRIPTED_KEY": KEY}


def gemini(home: Path, base: str) -> dict[str, str]:
    settings = home / ".gemini" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps(GEMINI), encoding="utf-8")
    return {
        "GEMINI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": base,
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_MODEL": "gemini-2.5-flash",
    }


def goose(home: Path, base: str) -> dict[str, str]:
    del home
    return {
        "OPENAI_API_KEY": KEY,
        "OPENAI_HOST": base,
        "OPENAI_BASE_PATH": "v1/chat/completions",
        "GOOSE_PROVIDER": "openai",
        # Its prices are known, so that goose tells a cost.
        "GOOSE_MODEL": "gpt-4o",
        "GOOSE_MODE": "auto",
        "GOOSE_DISABLE_KEYRING": "1",
        "GOOSE_TELEMETRY_ENABLED": "false",
    }


def opencode(home: Path, base: str) -> dict[str, str]:
    _pretend_plugins(home / ".config" / "opencode")
    _pretend_plugins(home / ".opencode")
    limits = {"limit": {"context": 200_000, "output": 8192}, "cost": {"input": 1, "output": 5}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{base}/v1", "apiKey": KEY},
        "models": {MODEL: limits},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "permission": {"*": "allow"},
        "model": f"scripted/{MODEL}",
        "small_model": f"scripted/{MODEL}",
        "enabled_providers": ["scripted"],
        "provider": {"scripted": provider},
    }
    switched_off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    return {
        "OPENCODE_CONFIG_CONTENT": json.dumps(settings),
        **{f"OPENCODE_DISABLE_{what}": "1" for what in switched_off},
    }


def _pretend_plugins(folder: Path) -> None:
    """opencode fetches a package for plugins into each of its folders, and no setting keeps it from that;
    it lets be what looks as if it were there."""
    package = {"dependencies": {"@opencode-ai/plugin": "*"}}
    (folder / "node_modules").mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(json.dumps(package), encoding="utf-8")
    lock = {"lockfileVersion": 3, "packages": {"": package}}
    (folder / "package-lock.json").write_text(json.dumps(lock), encoding="utf-8")


def copilot(home: Path, base: str) -> dict[str, str]:
    del home
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{base}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": MODEL,
        "COPILOT_AUTO_UPDATE": "false",
        # Of a model that it does not know it takes less than the longest prompt.
        "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "1000000",
    }


SETTINGS: dict[str, Callable[[Path, str], dict[str, str]]] = {
    "claude": claude,
    "codex": codex,
    "gemini": gemini,
    "goose": goose,
    "opencode": opencode,
    "copilot": copilot,
}
# Bare command lines that allow the shell, as root too; the prompt comes last.
BARE: dict[str, tuple[str, ...]] = {
    "claude": ("--output-format=json", "--permission-mode=dontAsk", "--allowedTools=Bash", "-p"),
    "codex": ("exec", "--json", "--dangerously-bypass-approvals-and-sandbox"),
    "gemini": ("--yolo", "--skip-trust", "-o", "stream-json", "-p"),
    "goose": ("run", "-q", "--output-format=stream-json", "--with-builtin=developer", "--no-profile", "-t"),
    "opencode": ("run", "--format=json"),
    "copilot": ("--allow-all-tools", "--output-format=json", "-p"),
}


def found(name: str, folder: Path | None) -> Path | None:
    """The executable of that name among the installed ones."""
    program = shutil.which(name, path=str(folder / "bin")) if folder else None
    return Path(program) if program else None


def prepare(name: str, installed: Path, home: Path, base: str) -> Cli:
    """Write the CLI's settings into the home and link it into a folder of its own."""
    alone = home / ".only" / name
    alone.mkdir(parents=True, exist_ok=True)
    program = alone / name
    if not program.is_symlink():
        program.symlink_to(installed.resolve())
    env = {"HOME": str(home), **SETTINGS[name](home, base)}
    return Cli(name, program, home, env)
