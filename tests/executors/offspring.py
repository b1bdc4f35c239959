"""A program that starts another one, in every way in which one can be lost sight of."""

import os
import signal
import sys
import time
from pathlib import Path


def main(kind: str, born: Path, then: str) -> None:
    if os.fork() == 0:
        live(kind, born)
    until = time.monotonic() + 60
    while not born.exists() and time.monotonic() < until:
        time.sleep(0.01)
    if then == "stay":
        signal.pause()


def live(kind: str, born: Path) -> None:
    if kind in {"session", "stubborn"}:
        os.setsid()
    if kind == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if kind == "daemon":
        os.setsid()
        if os.fork():
            os._exit(0)
    announce(born)
    if kind == "daemon":
        os.closerange(0, 1024)
    signal.pause()
    os._exit(0)


def announce(born: Path) -> None:
    draft = born.with_suffix(".draft")
    draft.write_text(str(os.getpid()), encoding="utf-8")
    draft.rename(born)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
