"""Spellings of one name: Order items, order_items, OrderItems; the names that vary between texts, found."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_]+")
JOINERS: Final = frozenset({"", " ", "_", "-"})
Words = tuple[str, ...]


def words_of(text: str) -> Words:
    """`OrderItems`, `order_items` and `Order items` are the same words."""
    return tuple(word.lower() for word in WORD.findall(text))


# --- rules ------------------------------------------------------------------------------------------


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]


STYLES: Final[Mapping[str, Callable[[Words], str]]] = {
    "lower": " ".join,
    "snake": "_".join,
    "kebab": "-".join,
    "constant": lambda words: "_".join(words).upper(),
    "sentence_case": lambda words: _capital(" ".join(words)),
    "title_case": lambda words: " ".join(map(_capital, words)),
    "pascal": lambda words: "".join(map(_capital, words)),
    "camel": lambda words: "".join([*words[:1], *map(_capital, words[1:])]),
}


def _singular(words: Words) -> Words:
    *first, last = words or ("",)
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh")):
        if last.endswith(ending):
            return (*first, last.removesuffix(ending) + instead)
    return (*first, last[:-1] if last.endswith("s") and not last.endswith("ss") else last)


def _plural(words: Words) -> Words:
    *first, last = words or ("",)
    if last.endswith("y") and last[-2:-1] not in tuple("aeiou"):
        return (*first, f"{last[:-1]}ies")
    return (*first, last + ("es" if last.endswith(("s", "x", "ch", "sh")) else "s"))


def _rule(style: Callable[[Words], str], number: Callable[[Words], Words]) -> Callable[[str], str]:
    return lambda text: style(number(words_of(text)))


NUMBERS: Final[Mapping[str, Callable[[Words], Words]]] = {
    "": lambda words: words,
    "_singular": _singular,
    "_plural": _plural,
}
RULES: Final[Mapping[str, Callable[[str], str]]] = {
    f"{name}{ending}": _rule(style, number)
    for ending, number in NUMBERS.items()
    for name, style in STYLES.items()
}
"""`pascal`, `pascal_singular` and so on, as `derive` names them."""


# --- names that vary --------------------------------------------------------------------------------

MOST: Final = 4
"""More names than that in one pattern are no names."""
SHORTEST: Final = 2
HINTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("endpoint", "endpoints", "route", "routes", "api", "rest", "crud", "resource"), "resource"
    ),
    **dict.fromkeys(("table", "migration", "schema", "model"), "table"),
    **dict.fromkeys(("page", "screen", "view"), "page"),
    **dict.fromkeys(("language", "locale", "translation", "translate"), "language"),
    **dict.fromkeys(("service", "services"), "service"),
    **dict.fromkeys(("module", "package"), "module"),
    **dict.fromkeys(("command", "subcommand"), "command"),
}
"""What a varying name is called where all texts have such a word."""
UNKNOWN: Final = "subject"
NUMBER: Final = "number"


@dataclass(frozen=True)
class VaryingName:
    """A name that differs from one instance to the next, as it is to be given."""

    base: str
    values: tuple[str, ...]

    def spellings(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Rule → the values by it, each only once."""
        seen = {self.values}
        for rule, spell in RULES.items():
            found = tuple(map(spell, self.values))
            if found not in seen:
                seen.add(found)
                yield rule, found


Column = Sequence[str]
"""One text of each instance."""


def varying_names(columns: Iterable[Column]) -> list[VaryingName]:
    """Names that stand where texts differ: words that not all of them have, as far as they go on."""
    texts = [column for column in columns if len(set(column)) > 1]
    spelt: dict[tuple[Words, ...], Counter[tuple[str, ...]]] = defaultdict(Counter)
    for column in texts:
        for found in _holes(column):
            spelt[tuple(map(words_of, found))][found] += 1
    names: list[VaryingName] = []
    known: set[tuple[Words, ...]] = set()
    base = _base(texts)
    for key in sorted(_taken_apart(spelt), key=lambda one: -_weight(spelt.get(one))):
        if len(names) < MOST and key not in known and _is_name(key):
            is_number = all(word.isdigit() for words in key for word in words)
            names.append(VaryingName(NUMBER if is_number else base, _source(key, spelt.get(key))))
            known |= {tuple(map(number, key)) for number in NUMBERS.values()}
    return names


def _holes(column: Column) -> Iterator[tuple[str, ...]]:
    """The runs of words that are not in all texts, where all texts have as many of them."""
    common = set.intersection(*(set(words_of(text)) for text in column))
    rows = [_runs(text, common) for text in column]
    if len({len(row) for row in rows}) == 1:
        yield from zip(*rows, strict=True)


def _runs(text: str, common: set[str]) -> list[str]:
    spans: list[tuple[int, int]] = []
    for found in WORD.finditer(text):
        if found[0].lower() in common:
            continue
        if spans and text[spans[-1][1] : found.start()] in JOINERS:
            spans[-1] = (spans[-1][0], found.end())
        else:
            spans.append(found.span())
    return [text[start:end] for start, end in spans]


def _taken_apart(spelt: Mapping[tuple[Words, ...], object]) -> list[tuple[Words, ...]]:
    """A run that begins or ends with a shorter one in every text is that and another."""
    found: list[tuple[Words, ...]] = []
    for key in sorted(spelt, key=lambda one: sum(map(len, one))):
        rest = key
        for other in found:
            if all(map(_begins, rest, other)):
                rest = tuple(own[len(part) :] for own, part in zip(rest, other, strict=True))
            elif all(map(_ends, rest, other)):
                rest = tuple(own[: -len(part)] for own, part in zip(rest, other, strict=True))
        if rest not in found and all(rest):
            found.append(rest)
    return found


def _begins(words: Words, part: Words) -> bool:
    return len(part) < len(words) and words[: len(part)] == part


def _ends(words: Words, part: Words) -> bool:
    return len(part) < len(words) and words[-len(part) :] == part


def _is_name(key: tuple[Words, ...]) -> bool:
    return len(set(key)) == len(key) and all(sum(map(len, words)) >= SHORTEST for words in key)


def _weight(found: Counter[tuple[str, ...]] | None) -> int:
    return sum(found.values()) if found else 0


def _source(key: tuple[Words, ...], spelt: Counter[tuple[str, ...]] | None) -> tuple[str, ...]:
    """As it is spelt most, in small letters where it is at all: from those every spelling can be made."""
    plain = tuple("_".join(words) for words in key)
    if not spelt:
        return plain
    small = [found for found, _ in spelt.most_common() if all(one == one.lower() for one in found)]
    return small[0] if small else spelt.most_common(1)[0][0]


def _base(texts: Sequence[Column]) -> str:
    common = [set.intersection(*(set(words_of(text)) for text in column)) for column in texts]
    return next((HINTS[word] for words in common for word in sorted(words) if word in HINTS), UNKNOWN)
