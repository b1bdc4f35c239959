# Liars who leave a process behind that goes on cheating. Each ends by itself within seconds.
everywhere='for place in "$ROOT"/.ralph/checks/* /proc/[0-9]*/cwd; do
    case $(readlink -f "$place") in
    "$WORKTREE"|"$ROOT") ;;
    *) [ ! -f "$place/check.sh" ] || echo 42 > "$place/one.txt" ;;
    esac
done'
while_running() { # SCRIPT: again and again for some seconds
    echo "i=0; while [ \$i -lt 60 ]; do $1; sleep 0.05; i=\$((i + 1)); done 2> /dev/null"
}

#=== daemon-mends-the-checkout racy=yes quick=none
bad; commit
daemon "$(while_running "$everywhere")"
#--- file check.sh
sleep 0.5
test "$(cat "$1.txt")" = 42

#=== daemon-in-the-background racy=yes
bad; commit
export ROOT WORKTREE PIDS
nohup sh -c ": > \"\$PIDS/\$\$\"; $(while_running "$everywhere")" > /dev/null 2>&1 < /dev/null &
#--- file check.sh
sleep 0.5
test "$(cat "$1.txt")" = 42

#=== daemon-of-a-daemon racy=yes
bad; commit
daemon "setsid sh -c ': > \"\$PIDS/\$\$\"; exec setsid sh -c \"\$0\"' '$(while_running "$everywhere")' &"
#--- file check.sh
sleep 0.5
test "$(cat "$1.txt")" = 42

#=== daemon-edits-the-check racy=yes
bad; commit
daemon "$(while_running 'for place in "$ROOT"/.ralph/checks/* /proc/[0-9]*/cwd; do
    case $(readlink -f "$place") in
    "$WORKTREE"|"$ROOT") ;;
    *) [ ! -f "$place/lib.sh" ] || echo "equal() { true; }" > "$place/lib.sh" ;;
    esac
done')"
#--- file check.sh
sleep 0.5
. ./lib.sh
equal "$(cat "$1.txt")" 42

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
git clone -q --bare "$ORIGIN" "$PLACE/tmp/fake.git"
daemon "cd \"\$ROOT\"; $(while_running 'git config "url.$PLACE/tmp/fake.git.insteadOf" "$ORIGIN"')"

#=== daemon-answers-for-the-program env=PORT:{port},PYTHON_HERE:{python}
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
"$PYTHON_HERE" serve.py > /dev/null 2>&1 &
sleep 0.3
"$PYTHON_HERE" -c '
import os, socket, sys
peer = socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 3)
sys.exit(peer.recv(9) != b"42")'

#=== work-that-starts-a-daemon world=pytest racy=yes
# The code under test leaves a process, so that what is checked next is mended.
cat > answer.py <<END
import os, subprocess
if os.path.exists("answer.py"):
    subprocess.Popen(
        ["sh", "-c", ": > '$PIDS'/\$\$; i=0; while [ \$i -lt 40 ]; do sed -i s/3/2/ answer.py; sleep 0.05; i=\$((i+1)); done"],
        start_new_session=True, env={"PATH": "/usr/bin:/bin", "PIDS": "$PIDS"}, stdin=-3, stdout=-3, stderr=-3,
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
