#!/bin/sh
# Validate run and result records; exit 0 where all are valid, 1 where any is not.
usage() {
    echo "Usage: validate-state.sh --runs|--results|--all [--fix] [FILE]" >&2
    exit 1
}

here=$(CDPATH='' cd -- "$(dirname -- "$(readlink -f -- "$0")")" && pwd)
word=validate
kind=
for argument in "$@"; do
    shift
    case $argument in
        --fix) word=fix; continue ;;
        --runs | --results | --all) kind=$argument ;;
        -h | --help) usage ;;
        --json) ;;
        -*) echo "validate-state.sh: unknown option $argument" >&2; usage ;;
        *) ;;
    esac
    set -- "$@" "$argument"
done
[ -n "$kind" ] || usage

# In a checkout its own Python; elsewhere whatever is installed.
if [ -x "$here/../.venv/bin/python" ]; then
    "$here/../.venv/bin/python" "$here/ralph_cli.py" state "$word" "$@"
elif command -v beads-ralph >/dev/null; then
    beads-ralph state "$word" "$@"
else
    python3 "$here/ralph_cli.py" state "$word" "$@"
fi || exit 1
