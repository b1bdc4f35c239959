"""One of many: waits for a word, then claims ready beads until it has enough or none is left."""

import json
import random
import sys
from pathlib import Path

from beads_ralph.store.embedded.embedded_store import EmbeddedStore

LIMIT = 20


def main(root: str, actor: str, wanted: int) -> None:
    store = EmbeddedStore(Path(root))
    store.check()
    print("ready", flush=True)
    sys.stdin.readline()
    won: list[str] = []
    lost = 0
    while len(won) < wanted:
        beads = store.ready(LIMIT).beads
        if not beads:
            break
        name = random.choice(beads).id
        if store.claim(name, actor).won:
            won.append(name)
        else:
            lost += 1
    print(json.dumps({"won": won, "lost": lost}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
