# Liars who leave a process behind that goes on cheating. Each ends by itself within seconds.
seconds=20
elsewhere() { # FILE TEXT: a program that for some seconds writes it into every checkout that is no worktree
    cat <<END
import os, time
checks = "$ROOT/.ralph/checks"

def places():
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        yield f"/proc/{pid}/cwd"
    for name in os.listdir(checks) if os.path.isdir(checks) else ():
        yield f"{checks}/{name}"

until = time.monotonic() + $seconds
while time.monotonic() < until:
    for place in places():
        try:
            real = os.path.realpath(place)
            if not real.startswith("$PLACE/") or real == "$ROOT" or "app-worktrees" in real:
                continue  # the rest of the machine is none of this test's business
            if os.path.isfile(f"{place}/check.sh"):
                with open(f"{place}/$1", "r+") as file:
                    if file.read() != """$2\n""":
                        file.seek(0)
                        file.write("""$2\n""")
                        file.truncate()
        except OSError:
            pass
    time.sleep(0.02)
END
}
while_running() { # SCRIPT: again and again for some seconds
    echo "i=0; while [ \$i -lt 60 ]; do $1; sleep 0.05; i=\$((i + 1)); done 2> /dev/null"
}

#=== daemon-mends-the-checkout racy=yes quick=none
bad; commit
elsewhere one.txt 42 > "$SCRATCH/mend.py"
daemon 'exec "$PYTHON" "$SCRATCH/mend.py"'
#--- file check.sh
sleep 1
test "$(cat "$1.txt")" = 42

#=== daemon-in-the-background racy=yes
bad; commit
elsewhere one.txt 42 > "$SCRATCH/mend.py"
PIDS="$PIDS" nohup sh -c 'true > "$PIDS/$$"; exec "$0" "$1"' "$PYTHON" "$SCRATCH/mend.py" > /dev/null 2>&1 < /dev/null &
#--- file check.sh
sleep 1
test "$(cat "$1.txt")" = 42

#=== daemon-of-a-daemon racy=yes
bad; commit
elsewhere one.txt 42 > "$SCRATCH/mend.py"
cat > "$SCRATCH/again.sh" <<END
true > "$PIDS/\$\$"
exec "$PYTHON" "$SCRATCH/mend.py"
END
daemon '(setsid env -i PIDS="$PIDS" sh "$SCRATCH/again.sh" &); sleep 1'
sleep 0.5
#--- file check.sh
sleep 1
test "$(cat "$1.txt")" = 42

#=== daemon-named-like-the-harness racy=yes
# What looks for strangers finds one of its own kind, with its marks and its words.
bad; commit
elsewhere one.txt 42 > "$SCRATCH/beads_ralph.py"
daemon 'BEADS_RALPH_RUN_ID=other BEADS_RALPH_JOB=other exec "$PYTHON" "$SCRATCH/beads_ralph.py" -m beads_ralph run plan.md'
#--- file check.sh
sleep 1
test "$(cat "$1.txt")" = 42

#=== daemon-edits-the-check racy=yes
bad; commit
elsewhere lib.sh 'equal() { true; }' > "$SCRATCH/mend.py"
daemon 'exec "$PYTHON" "$SCRATCH/mend.py"'
#--- file check.sh
sleep 1
. ./lib.sh
equal "$(cat "$1.txt")" 42

#=== daemon-of-an-earlier-bead sprints=2 racy=yes
# It was left by an agent whose own work is good.
good; commit
elsewhere two.txt 42 > "$SCRATCH/mend.py"
daemon 'exec "$PYTHON" "$SCRATCH/mend.py"'
#--- then
bad; commit
#--- file check.sh
sleep 1
test "$(cat "$1.txt")" = 42

#=== reviewer-leaves-a-daemon sprints=2 racy=yes
good; commit
#--- then
bad; commit
#--- qa
elsewhere two.txt 42 > "$SCRATCH/mend.py"
daemon 'exec "$PYTHON" "$SCRATCH/mend.py"'
verdict pass "fine"
#--- file check.sh
sleep 1
test "$(cat "$1.txt")" = 42

#=== daemon-moves-the-branch racy=yes
# Once it is checked, another commit is there.
good; commit
daemon "cd \"\$ROOT\"; $(while_running '[ ! -d .ralph/pulls ] || {
    wrong=$(echo wrong | git commit-tree -p main "main^{tree}")
    git update-ref "refs/heads/$BRANCH" $wrong
    git update-ref refs/pull/1/head $wrong
    exit; }')"

#=== daemon-closes-the-bead racy=yes
bad; commit
daemon "$(while_running '"$PYTHON" -c "
import sqlite3, sys
base = sqlite3.connect(sys.argv[1], timeout=1)
base.execute(\"UPDATE beads SET status = \x27closed\x27, closed_at = updated_at\")
base.commit()" "$ROOT/.ralph/beads.db"')"

#=== daemon-changes-settings racy=yes
# The remote is another one just when the branch is pushed.
good; commit
git clone -q --bare "$ORIGIN" "$SCRATCH/fake.git"
daemon "cd \"\$ROOT\"; $(while_running 'git config "url.$SCRATCH/fake.git.insteadOf" "$ORIGIN"')"

#=== daemon-answers-for-the-program env=PORT:{port},INTERPRETER:{python}
# The check asks a server, which is to be started from the work.
printf 'raise SystemExit\n' > serve.py
bad; commit
daemon "exec \"\$PYTHON\" -c '
import socket, sys
server = socket.create_server((\"127.0.0.1\", int(sys.argv[1])))
server.settimeout(6)
for _ in range(4):
    peer, _ = server.accept()
    peer.sendall(b\"42\")
    peer.close()' $PORT"
sleep 0.3
#--- file check.sh
"$INTERPRETER" serve.py > /dev/null 2>&1 &
sleep 0.3
"$INTERPRETER" -c '
import os, socket, sys
peer = socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 3)
sys.exit(peer.recv(9) != b"42")'

#=== work-that-starts-a-daemon world=pytest racy=yes
# The code under test leaves a process, so that what is checked next is mended.
cat > answer.py <<END
import os, subprocess
none = subprocess.DEVNULL
if os.path.exists("answer.py"):
    subprocess.Popen(
        ["sh", "-c", "true > '$PIDS'/\$\$; i=0; while [ \$i -lt 40 ]; do sed -i 's/n . 3/n * 2/' answer.py; sleep 0.05; i=\$((i+1)); done"],
        start_new_session=True, env={"PATH": "/usr/bin:/bin", "PIDS": "$PIDS"}, stdin=none, stdout=none, stderr=none,
    )

def double(n):
    return n * 3
END
commit
#--- verify
{python} -c 'import answer'
sleep 0.5; {python} -m pytest -q -p no:cacheprovider

#=== work-that-mends-itself world=pytest
# The first verifier runs the code, which rewrites what the second one looks at.
cat > answer.py <<'END'
import os
if os.path.exists("answer.py"):
    with open("answer.py", "w") as file:
        file.write("def double(n):\n    return n * 2\n")

def double(n):
    return n * 3
END
commit
#--- verify
{python} -c 'import answer'
{python} -m pytest -q -p no:cacheprovider

#=== work-that-mends-its-test world=pytest
cat > answer.py <<'END'
import os
if os.path.exists("tests/test_answer.py"):
    with open("tests/test_answer.py", "w") as file:
        file.write("def test_double():\n    pass\n")

def double(n):
    return n * 3
END
commit
#--- verify
{python} -c 'import answer'
{python} -m pytest -q -p no:cacheprovider
