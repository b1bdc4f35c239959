#!/usr/bin/env bash
# What the runs of this repository teach, from its records in state/:
#
#   ./scripts/analyze-runs.sh                      for people
#   ./scripts/analyze-runs.sh --json               one JSON object: generated_at, filter, statistics, …
#   ./scripts/analyze-runs.sh --since 2026-02-11   only what started or finished then or later
#
# Takes every option of `beads-ralph analyze`. With --json the answer stands alone, without the envelope
# that beads-ralph puts around it, and has every attempt as raw_data; where something went wrong, the envelope
# says what.
set -euo pipefail

here=$(cd -- "$(dirname -- "$(readlink -f -- "$0")")" && pwd)
# In a checkout its own Python; elsewhere whatever is installed.
python=python3
if [ -x "$here/../.venv/bin/python" ]; then
    python=$here/../.venv/bin/python
fi
if [ "$python" = python3 ] && command -v beads-ralph >/dev/null; then
    ralph=(beads-ralph)
else
    ralph=("$python" "$here/ralph_cli.py")
fi

for word in "$@"; do
    if [ "$word" = --json ]; then
        "${ralph[@]}" analyze --raw "$@" | "$python" -c '
import json, signal, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
answer = json.load(sys.stdin)
print(json.dumps(answer["data"] if answer.get("success") else answer, indent=2, ensure_ascii=False))'
        exit
    fi
done
exec "${ralph[@]}" analyze "$@"
