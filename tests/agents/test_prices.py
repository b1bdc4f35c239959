"""The price table: which model costs what, and when a cost is computed at all."""

from __future__ import annotations

import tomllib
from datetime import date
from importlib import resources

import pytest

from beads_ralph.agents import prices
from beads_ralph.agents.protocol import AGENTS
from beads_ralph.bead.usage import Usage
from beads_ralph.config.model import ModelPrice

TOKENS = Usage(input_tokens=1_000_000, output_tokens=100_000, cache_tokens=2_000_000)


def test_the_table_of_the_package_is_dated_and_has_a_price_in_every_row() -> None:
    text = resources.files("beads_ralph.agents").joinpath(prices.TABLE).read_text("utf-8")
    assert date.fromisoformat(tomllib.loads(text)["dated"]) >= date(2026, 11, 1)
    for pattern, price in prices.shipped().items():
        assert 0 < (price.cached or price.input) <= price.input < price.output, pattern


@pytest.mark.parametrize(
    ("asked", "row"),
    [
        ("gpt-6-sol", "gpt-6-sol"),
        ("openai/gpt-6-sol", "gpt-6-sol"),
        ("GPT-6-Sol-2026-09-22", "gpt-6-sol"),
        ("gpt-5.4-mini", "gpt-5.4-mini"),
        ("google/gemini-3.1-pro-preview", "gemini-3.1-pro*"),
        ("gemini-2.5-flash-lite", "gemini-2.5-flash-lite"),
        ("claude-sonnet-4.5", "claude-sonnet-4[-.][56]"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4[-.][56]"),
        ("gpt-6-sol-of-my-own", None),
        ("mock-model", None),
        ("", None),
    ],
)
def test_a_model_is_found_by_its_name_and_never_guessed(asked: str, row: str | None) -> None:
    assert prices.price_of(asked, {}) == (prices.shipped()[row] if row else None)


def test_the_users_price_goes_before_the_table() -> None:
    own = ModelPrice(input=1, output=2)
    assert prices.price_of("openai/gpt-6-sol", {"GPT-6-*": own}) is own
    assert prices.price_of("openai/gpt-5", {"gpt-6-*": own}) is prices.shipped()["gpt-5"]


def test_a_cost_is_computed_where_the_program_tells_tokens_and_no_price() -> None:
    price = ModelPrice(input=2, output=10, cached=0.5)
    assert prices.priced(TOKENS, price) == (TOKENS + Usage(cost_usd=4.0), True)
    # What has no price of its own when it comes from a cache is never counted for too little.
    assert prices.priced(TOKENS, ModelPrice(input=2, output=10))[0].cost_usd == 7.0
    told = TOKENS + Usage(cost_usd=0.25)
    assert prices.priced(told, price) == (told, False)
    free = TOKENS + Usage(cost_usd=0.0)
    assert prices.priced(free, price)[0].cost_usd == 4.0
    assert prices.priced(free, None) == (free, False)
    assert prices.priced(TOKENS, None) == (TOKENS, False)
    assert prices.priced(Usage(), price) == (Usage(), False)


@pytest.mark.parametrize(
    ("model", "options", "env", "found"),
    [
        ("gpt-5", [], {}, "gpt-5"),
        ("", ["--model", "gpt-5"], {}, "gpt-5"),
        ("gpt-6-sol", ["-m", "gpt-5"], {}, "gpt-5"),
        ("", ["-c", 'model="gpt-5"', "-c", "model_provider=mine"], {}, "gpt-5"),
        ("", ["--config=model=gpt-5"], {}, "gpt-5"),
        ("", ["--verbose"], {"GOOSE_MODEL": "gpt-4o"}, "gpt-4o"),
        ("", ["-m"], {}, ""),
    ],
)
def test_the_model_is_named_by_options_task_or_variable(
    model: str, options: list[str], env: dict[str, str], found: str
) -> None:
    assert prices.named_model(model, options, env, AGENTS["goose"].profile) == found
