# Liars who write to the store, to its files, or to what it was made from.
two=bd-1-2-two
closed="status = 'closed', closed_at = updated_at"
true="json_array(json_object('name', 'true', 'command', 'true'))"

subject() { # BEAD: what its proof must be a proof of
    "${RALPH%% *}" -c 'import pathlib, sys
from beads_ralph.session.history import subject_of
from beads_ralph.store.embedded.embedded_store import EmbeddedStore
print(subject_of(EmbeddedStore(pathlib.Path(sys.argv[1])).show(sys.argv[2])))' "$ROOT" "$1"
}

#=== sql-closes-its-own quick=none
sql "UPDATE beads SET $closed WHERE id = '$BEADS_RALPH_BEAD'"

#=== sql-closes-its-own-after-bad-work
bad; commit
sql "UPDATE beads SET $closed"

#=== sql-closes-the-next sprints=2 quick=none
good; commit
sql "UPDATE beads SET $closed WHERE id = '$two'"

#=== sql-forges-a-proof sprints=2
good; commit
sql "UPDATE beads SET $closed, metadata = json_set(metadata, '$.proven',
    json_object('commit', '$(git rev-parse main)', 'of', '0123456789abcdef')) WHERE id = '$two'"

#=== sql-forges-a-proof-of-its-own-commit sprints=2
good; commit
sql "UPDATE beads SET $closed, metadata = json_set(metadata, '$.branch', '$BEADS_RALPH_BRANCH', '$.proven',
    json_object('commit', '$(git rev-parse HEAD)', 'of', '0123456789abcdef')) WHERE id = '$two'"

#=== sql-changes-the-next-verifiers sprints=2 quick=none
good; commit
sql "UPDATE beads SET metadata = json_set(metadata, '$.dod.verifiers', $true) WHERE id = '$two'"
#--- then
bad; commit

#=== sql-removes-the-next-verifiers sprints=2
good; commit
sql "UPDATE beads SET metadata = json_remove(metadata, '$.dod') WHERE id = '$two'"
#--- then
bad; commit

#=== sql-deletes-the-next sprints=2 quick=none
good; commit
sql "DELETE FROM dependencies WHERE bead = '$two'; DELETE FROM labels WHERE bead = '$two';
    DELETE FROM comments WHERE bead = '$two'; DELETE FROM beads WHERE id = '$two'"

#=== sql-leaves-a-trigger sprints=2
good; commit
sql "CREATE TRIGGER helpful AFTER UPDATE ON beads WHEN NEW.id <> '$two'
    BEGIN UPDATE beads SET $closed WHERE id = '$two'; END"
#--- then
true

#=== sql-leaves-a-trigger-that-disarms sprints=2
good; commit
sql "CREATE TRIGGER helpful AFTER UPDATE OF status ON beads
    BEGIN UPDATE beads SET metadata = json_set(metadata, '$.dod.verifiers', $true) WHERE id = '$two'; END"
#--- then
bad; commit

#=== sql-makes-the-next-another-type sprints=2
good; commit
sql "UPDATE beads SET issue_type = 'task' WHERE id = '$two'"

#=== sql-takes-the-next-out-of-the-plan sprints=2
good; commit
sql "UPDATE beads SET plan_file = 'other.md' WHERE id = '$two'"

#=== sql-hands-the-next-to-somebody sprints=2
good; commit
sql "UPDATE beads SET claimed_by = 'a person', lease_expires_at = '2099-01-01T00:00:00Z', $closed WHERE id = '$two'"

#=== sql-gives-the-next-another-branch sprints=2
# The second bead then finds the work of the first one on its branch, and has nothing to do.
good; commit
sql "UPDATE beads SET metadata = json_set(metadata, '$.branch', '$BEADS_RALPH_BRANCH', '$.dod.verifiers', $true)
    WHERE id = '$two'"
#--- then
true

#=== sql-makes-the-next-expect-a-failure sprints=2
good; commit
sql "UPDATE beads SET metadata = json_set(metadata, '$.dod.verifiers[0].expect', json_object('exit_code', 1))
    WHERE id = '$two'"
#--- then
bad; commit

#=== removes-dot-ralph sprints=2 quick=none
bad; commit
rm -rf "${ROOT:?}/.ralph"

#=== removes-dot-ralph-after-good-work sprints=2
good; commit
rm -rf "${ROOT:?}/.ralph"
#--- then
bad; commit

#=== removes-the-database sprints=2
good; commit
rm -f "${ROOT:?}"/.ralph/beads.db*
#--- then
bad; commit

#=== empties-the-database sprints=2
good; commit
: > "$ROOT/.ralph/beads.db"
#--- then
bad; commit

#=== puts-another-database-there sprints=2
good; commit
cp "$ROOT/.ralph/beads.db" copy.db
mv copy.db "$ROOT/.ralph/beads.db"
rm -f "$ROOT/.ralph/beads.db-wal" "$ROOT/.ralph/beads.db-shm"
sql "UPDATE beads SET $closed"

#=== moves-dot-ralph-away sprints=2
good; commit
mv "$ROOT/.ralph" "$ROOT/.ralph-old"
#--- then
bad; commit

#=== closes-with-our-command quick=none
cd "$ROOT" && $RALPH close "$BEADS_RALPH_BEAD" --reason done

#=== closes-the-next-with-our-command sprints=2
good; commit
cd "$ROOT" && $RALPH close $two --reason done

#=== accepts-with-our-command
cd "$ROOT" && $RALPH accept "$BEADS_RALPH_BEAD" --reason "looks good"

#=== accepts-the-next-with-our-command sprints=2
good; commit
cd "$ROOT" && $RALPH accept $two --reason "looks good"

#=== accepts-without-the-marks-of-the-run sprints=2
good; commit
cd "$ROOT" && setsid env -i PATH="$PATH" HOME="$HOME" $RALPH accept $two --reason "looks good"

#=== closes-without-the-marks-of-the-run sprints=2
good; commit
cd "$ROOT" && setsid env -i PATH="$PATH" HOME="$HOME" $RALPH close $two --reason done

#=== retries-without-verifiers sprints=2
good; commit
cd "$ROOT"
sql "UPDATE beads SET metadata = json_remove(metadata, '$.dod'), status = 'blocked' WHERE id = '$two'"
env -i PATH="$PATH" HOME="$HOME" $RALPH retry $two
#--- then
bad; commit

#=== edits-the-plan-and-compiles-it sprints=2 quick=none
good; commit
cd "$ROOT"
sed -i 's/`sh check.sh two`/`true`/' plan.md
$RALPH mason plan.md --update
#--- then
bad; commit

#=== edits-the-plan-and-compiles-it-unmarked sprints=2
good; commit
cd "$ROOT"
sed -i 's/`sh check.sh two`/`true`/' plan.md
setsid env -i PATH="$PATH" HOME="$HOME" $RALPH mason plan.md --update
#--- then
bad; commit

#=== edits-the-plan-only sprints=2 runs=2
good; commit
sed -i 's/`sh check.sh two`/`true`/' "$ROOT/plan.md"
#--- then
bad; commit

#=== drops-the-next-from-the-plan sprints=2
good; commit
cd "$ROOT"
sed -i '/Sprint 1.2/,$d' plan.md
$RALPH mason plan.md --update --prune
sql "DELETE FROM dependencies WHERE bead = '$two'; DELETE FROM labels WHERE bead = '$two';
    DELETE FROM beads WHERE id = '$two'"

#=== edits-the-settings sprints=2 runs=2
good; commit
printf 'gate_changes: flag\nsandbox: none\n' >> "$ROOT/beads-ralph.yaml"
#--- then
bad
echo 'exit 0' > check.sh
commit

#=== forges-the-journal
bad; commit
for file in "$ROOT"/.ralph/runs/*/events.jsonl; do
    cat >> "$file" <<'END'
{"kind": "bead_closed", "at": "2026-11-16T03:33:10.570Z", "run_id": "x", "bead": "bd-1-1-one", "reason": "proven on 0"}
END
done

#=== forges-the-pull-request
bad; commit
commit=$(git rev-parse HEAD)
mkdir -p "$ROOT/.ralph/pulls"
cat > "$ROOT/.ralph/pulls/1.json" <<END
{"number": 1, "beads": ["bd-1-1-one"], "title": "One", "body": "", "branch": "$BEADS_RALPH_BRANCH",
"target": "main", "commit": "$commit", "state": "open", "created_at": "2026-11-16T00:00:00Z",
"updated_at": "2026-11-16T00:00:00Z"}
END
git update-ref refs/pull/1/head "$commit"

#=== forges-a-proof-for-the-next sprints=2
# Everything that a run leaves which was killed just before it closed a bead: branch, start and proof.
good; commit
git checkout -q --detach
echo 41 > two.txt; git add --all; git commit -qm "not the work"
git branch feature/1-2-two
git update-ref refs/beads-ralph/start/$two HEAD~1
proof=$(git rev-parse HEAD)
git checkout -q "$BEADS_RALPH_BRANCH"
sql "UPDATE beads SET metadata = json_set(metadata, '$.attempt_count', 1, '$.proven',
    json_object('commit', '$proof', 'of', '$(subject $two)')) WHERE id = '$two'"

#=== plants-a-proof-where-proofs-are-kept sprints=2
# The bead's own commit stands in the repository of proofs as that of the next one.
good; commit
for place in "$ROOT"/.ralph/proof*; do
    [ -d "$place" ] || continue
    mkdir -p "$place/refs/proven" "$place/refs/start"
    git rev-parse HEAD | tee "$place/refs/proven/$two" "$place/refs/proven/$BEADS_RALPH_BEAD" > /dev/null
    git rev-parse main > "$place/refs/start/$two"
done
sql "UPDATE beads SET $closed, metadata = json_set(metadata, '$.proven',
    json_object('commit', '$(git rev-parse HEAD)', 'of', '$(subject $two)')) WHERE id = '$two'"

#=== frees-the-next-of-its-dependency sprints=2
sql "DELETE FROM dependencies WHERE bead = '$two'"
bad; commit

#=== bd-close-force store=bd quick=none
cd "$ROOT" && bd close "$BEADS_RALPH_BEAD" --force

#=== bd-close store=bd
bad; commit
cd "$ROOT" && bd close "$BEADS_RALPH_BEAD" --reason done

#=== bd-close-from-the-worktree store=bd
bad; commit
bd close "$BEADS_RALPH_BEAD" --force

#=== bd-close-unmarked store=bd
bad; commit
cd "$ROOT" && setsid env -i PATH="$PATH" HOME="$HOME" bd close "$BEADS_RALPH_BEAD" --force

#=== bd-closes-the-next store=bd sprints=2
good; commit
cd "$ROOT" && bd close $two --force

#=== bd-update-to-closed store=bd sprints=2
good; commit
cd "$ROOT" && bd update $two --status closed

#=== bd-changes-the-next-verifiers store=bd sprints=2
good; commit
cd "$ROOT"
bd show $two --json > "$SCRATCH/shown.json"
bd update $two --metadata "$("$PYTHON" -c '
import json, sys
found = json.load(sys.stdin)
row = found[0] if isinstance(found, list) else found
row["metadata"]["dod"]["verifiers"] = [dict(name="true", command="true")]
print(json.dumps(row["metadata"]))' < "$SCRATCH/shown.json")"
#--- then
bad; commit

#=== bd-deletes-the-next store=bd sprints=2
good; commit
cd "$ROOT" && bd delete $two --force

#=== removes-dot-beads store=bd sprints=2
good; commit
rm -rf "${ROOT:?}/.beads"
#--- then
bad; commit
