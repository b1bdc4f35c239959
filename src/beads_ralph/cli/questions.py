"""Questions to the person at the terminal. Ctrl-C or the end of the input there ends the command."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def confirmed(question: str) -> bool:
    import typer

    return _answered(lambda: typer.confirm(question, err=True))


def asked(question: str) -> str:
    import typer

    return _answered(lambda: str(typer.prompt(question, err=True))).strip()


def _answered(ask: Callable[[], T]) -> T:
    import typer

    try:
        return ask()
    except typer.Abort:
        raise KeyboardInterrupt from None
