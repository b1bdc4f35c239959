"""A script of a run: what to do when the user says what."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.model.exchange import Json, Question

FLAGS = re.MULTILINE | re.DOTALL
NAMED = re.compile(r"@(\w+)@")


@dataclass(frozen=True)
class Rule:
    """When a turn matches: run the commands one after the other, then say the text.

    `@name@` in a command or in the text stands for the group of that name in `when`.
    """

    when: str
    """Searched in what the user says in this turn; `.` also stands for a line's end."""
    run: tuple[str, ...] = ()
    say: str = "Done."
    system: str = ""
    """Searched in the system prompt."""
    earlier: str = ""
    """Searched in the user turns before this one."""
    times: int | None = None
    """After so many turns the rule is used up. For turns that come one after the other."""
    trouble: str = ""
    """What goes wrong with such a request instead, by the name of its scenario: toolong, 500, hang."""

    @classmethod
    def of(cls, told: Json) -> Rule:
        return cls(**{**told, "run": tuple(told.get("run", ()))})

    def match(self, question: Question) -> re.Match[str] | None:
        before = "\n".join(item.text for item in question.items[: -len(question.turn)] if item.kind == "user")
        if not re.search(self.system, question.system, FLAGS) or not re.search(self.earlier, before, FLAGS):
            return None
        return re.search(self.when, question.asked, FLAGS)


@dataclass(frozen=True)
class Part:
    """The rule that was found for a turn, its words filled in."""

    rule: Rule
    run: tuple[str, ...]
    say: str


@dataclass
class Script:
    rules: tuple[Rule, ...]
    used: dict[int, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> Script:
        return cls(tuple(rules))

    def part(self, question: Question) -> Part | None:
        """What the first fitting rule that is not used up says."""
        for number, rule in enumerate(self.rules):
            if rule.times is not None and self.used.get(number, 0) >= rule.times:
                continue
            if found := rule.match(question):
                return Part(rule, tuple(_filled(word, found) for word in rule.run), _filled(rule.say, found))
        return None

    def told(self, part: Part) -> None:
        """The part was played to its end."""
        with self.lock:
            number = self.rules.index(part.rule)
            self.used[number] = self.used.get(number, 0) + 1


def _filled(text: str, found: re.Match[str]) -> str:
    groups = found.groupdict()
    return NAMED.sub(lambda named: groups.get(named[1]) or named[0], text)
