"""The price of tokens: what the user's settings say, then what the table of this package says.

A program's own price goes before both. A model that nobody names has no known price: a guess would make a
budget a lie.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Final

from beads_ralph.bead.usage import Usage
from beads_ralph.config.model import ModelPrice
from beads_ralph.process.jobs import Profile

TABLE: Final = "prices.toml"
MILLION: Final = 1_000_000
DATE: Final = re.compile(r"[-@](20\d{2}-?\d{2}-?\d{2}|latest|preview)$")
MODEL_FLAGS: Final = ("--model", "-m")
MODEL_SETTING: Final = re.compile(r"""model\s*=\s*["']?([^"']+)["']?""")
SETTING_FLAGS: Final = ("-c", "--config")


@cache
def shipped() -> Mapping[str, ModelPrice]:
    """The table of this package, by pattern."""
    text = resources.files("beads_ralph.agents").joinpath(TABLE).read_text("utf-8")
    rows = tomllib.loads(text)["models"]
    return {pattern: ModelPrice.model_validate(row) for pattern, row in rows.items()}


def price_of(model: str, own: Mapping[str, ModelPrice]) -> ModelPrice | None:
    """The price of a model; the user's `own` prices go first. None where nobody knows it."""
    names = _names(model)
    tables = (own, shipped()) if model else ()
    return next(
        (
            price
            for table in tables
            for pattern, price in table.items()
            if any(fnmatchcase(name, pattern.lower()) for name in names)
        ),
        None,
    )


def _names(model: str) -> list[str]:
    """What a model is called: in full, without its provider, and without its date."""
    whole = model.lower()
    bare = whole.rpartition("/")[2]
    return [whole, bare, DATE.sub("", bare)]


def priced(usage: Usage, price: ModelPrice | None) -> tuple[Usage, bool]:
    """The usage with its cost, and whether that was computed here. A program that counts tokens and says that
    they cost nothing knows no price; where we know one, it holds."""
    counted = (usage.input_tokens, usage.output_tokens)
    if usage.cost_usd or price is None or all(count is None for count in counted):
        return usage, False
    fresh, answered, cached = (count or 0 for count in (*counted, usage.cache_tokens))
    of_cached = price.input if price.cached is None else price.cached
    cost = (fresh * price.input + answered * price.output + cached * of_cached) / MILLION
    return replace(usage, cost_usd=cost), True


def named_model(model: str, options: Sequence[str] | None, env: Mapping[str, str], profile: Profile) -> str:
    """The model that a program is asked for, as far as that can be known: by its task, by its options, by its
    variable. Empty where it takes its own default."""
    return _in_options(options or ()) or model or env.get(profile.model_variable, "")


def _in_options(options: Sequence[str]) -> str:
    """The last one counts, as it does for the programs."""
    found = ""
    for at, word in enumerate(options):
        flag, _, joined = word.partition("=")
        value = joined or (options[at + 1] if at + 1 < len(options) else "")
        if flag in MODEL_FLAGS:
            found = value
        elif flag in SETTING_FLAGS and (setting := MODEL_SETTING.fullmatch(value)):
            found = setting[1]
    return found
