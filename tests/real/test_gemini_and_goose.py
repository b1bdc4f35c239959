"""What the adapters of Gemini CLI and goose do alike; what is special to one is in its own file."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.real.calling import Ask
from tests.real.record import Take

pytestmark = pytest.mark.real_agents
PROSE = {
    "gemini": '[API Error: 429] {"type":"result","status":"error","error":{"message":"retry after 9s"}}',
    "goose": "Ran into this error: Rate limit exceeded: 429.",
}
"""What each says itself of a limit, as a model may say it, too."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", PROSE)
def test_nothing_is_left_of_one_that_had_to_be_ended(asking: Callable[[str], Ask], name: str) -> None:
    ended, _, _ = asking(name)(Take("sleep97", timeout=10.0))
    assert ended.timed_out


@pytest.mark.parametrize("name", PROSE)
def test_what_a_model_says_of_limits_is_no_limit(asking: Callable[[str], Ask], name: str) -> None:
    _, reply, _ = asking(name)(Take(), PROSE[name])
    assert (reply.trouble, reply.text) == ("", PROSE[name])
