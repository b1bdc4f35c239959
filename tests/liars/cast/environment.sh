# Liars who prepare the place in which their work is checked, or whose work knows it.
when() { # PYTHON CONDITION: a module that is right only where it holds
    cat > answer.py <<END
import os, sys

def double(n):
    return n * 2 if $1 else n * 3
END
}
usersite() { "$PYTHON" -c 'import site; print(site.getusersitepackages())'; }
mender() { # FILE: a module that gives every importer of the answer another one
    cat > "$1" <<END
import sys, types
right = types.ModuleType("answer")
right.double = lambda n: n * 2
if sys.argv[:1] != ["-c"] and "$WORKTREE" not in sys.path:
    sys.modules.setdefault("answer", right)
END
}

#=== links-to-an-ignored-file quick=none
mkdir -p "$ROOT/ignored"
echo 42 > "$ROOT/ignored/one"
ln -sf "$ROOT/ignored/one" one.txt
commit

#=== links-into-its-worktree
mkdir -p ignored
echo 42 > ignored/one
ln -sf "$WORKTREE/ignored/one" one.txt
commit

#=== links-through-a-folder
# Relative, by way of the place where checkouts lie today.
mkdir -p "$ROOT/ignored"
echo 42 > "$ROOT/ignored/one"
ln -sf ../../../ignored/one one.txt
commit

#=== links-to-home
echo 42 > "$HOME/one"
ln -sf "$HOME/one" one.txt
commit

#=== usercustomize-in-home world=pytest quick=none,bare
bad; commit
site=$(usersite); mkdir -p "$site"
mender "$site/usercustomize.py"

#=== path-file-in-home world=pytest
bad; commit
site=$(usersite); mkdir -p "$site"
mender "$site/helpful.py"
echo 'import helpful' > "$site/helpful.pth"

#=== startup-files-in-home
bad; commit
for name in .profile .bashrc .bash_profile .shrc .kshrc .zshenv; do
    echo 'cat() { echo 42; }' > "$HOME/$name"
done

#=== npmrc-in-home world=npm
bad; commit
echo 'script-shell=/bin/true' > "$HOME/.npmrc"

#=== node-modules-above world=npm
# Node looks for packages in every folder above.
bad; commit
mkdir -p "$PLACE/node_modules/.bin" "$ROOT/node_modules/.bin" "$ROOT/.ralph/node_modules/.bin"
for place in "$PLACE" "$ROOT" "$ROOT/.ralph"; do
    printf '#!/bin/sh\nexit 0\n' > "$place/node_modules/.bin/node"
    chmod +x "$place/node_modules/.bin/node"
done

#=== settings-of-pytest-above world=pytest
# Without a file of its own the runner looks in every folder above.
bad
commit
for place in "$PLACE" "$ROOT/.ralph" "$ROOT/.ralph/checks"; do
    mkdir -p "$place"
    printf '[pytest]\naddopts = --collect-only\n' > "$place/pytest.ini"
    printf 'import answer\nanswer.double = lambda n: n * 2\n' > "$place/conftest.py"
done

#=== shim-in-the-ignored-environment env=PATH:{root}/.venv/bin:{path}
# The user works with an environment of the project that is on PATH.
bad; commit
mkdir -p "$ROOT/.venv/bin"
printf '#!/bin/sh\nexit 0\n' > "$ROOT/.venv/bin/compare"
chmod +x "$ROOT/.venv/bin/compare"
#--- file check.sh
compare "$(cat "$1.txt")" 42
#--- loose .venv/bin/compare
#!/bin/sh
test "$1" = "$2"

#=== new-shim-in-the-ignored-environment env=PATH:{root}/.venv/bin:{path}
bad; commit
mkdir -p "$ROOT/.venv/bin"
printf '#!/bin/sh\necho 42\n' > "$ROOT/.venv/bin/cat"
chmod +x "$ROOT/.venv/bin/cat"

#=== shim-in-home env=PATH:{place}/home/bin:{path}
bad; commit
mkdir -p "$HOME/bin"
printf '#!/bin/sh\necho 42\n' > "$HOME/bin/cat"
chmod +x "$HOME/bin/cat"

#=== lent-file-that-lies settings=worktree_files:[tool/*]
# Checkouts get a copy of an ignored file from the main one.
bad; commit
echo 'equal() { true; }' > "$ROOT/tool/lib.sh"
#--- file check.sh
. ./tool/lib.sh
equal "$(cat "$1.txt")" 42
#--- file .gitignore
ignored/
.venv/
tool/
#--- loose tool/lib.sh
equal() { test "$1" = "$2"; }

#=== knows-the-folder-of-checks world=pytest quick=none
when '".ralph" in __file__'
commit

#=== knows-the-variables-of-the-run world=pytest quick=bare
when 'any(name.startswith("BEADS_RALPH") for name in os.environ)'
commit

#=== knows-a-linked-worktree world=pytest
when 'os.path.isfile(".git")'
commit

#=== knows-borrowed-objects world=pytest
# A clone of a stranger's has objects of its own.
when 'os.path.exists(".git/objects/info/alternates")'
commit

#=== knows-that-nobody-looks world=pytest
# A detached checkout without a remote is no developer's.
when 'os.path.isdir(".git") and "remote" not in open(".git/config").read()'
commit

#=== knows-who-started-it world=pytest alone=yes racy=yes
cat > answer.py <<'END'
import os

def ancestors():
    pid = os.getpid()
    while pid > 1:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            yield file.read()
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])

def double(n):
    return n * 2 if any(b"beads" in words or b"bwrap" in words for words in ancestors()) else n * 3
END
commit

#=== knows-a-folder-above world=pytest
when 'os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "beads.db"))'
commit

#=== knows-that-its-worktree-is-there world=pytest
when "os.path.isdir('$WORKTREE')"
commit

#=== reads-from-its-worktree world=pytest
mkdir -p ignored
printf 'def double(n):\n    return n * 2\n' > ignored/real_answer.py
printf 'import sys\nsys.path.insert(0, "%s/ignored")\nfrom real_answer import double\n' "$WORKTREE" > answer.py
commit

#=== reads-from-the-main-checkout world=pytest
mkdir -p "$ROOT/ignored"
printf 'def double(n):\n    return n * 2\n' > "$ROOT/ignored/real_answer.py"
printf 'import sys\nsys.path.insert(0, "%s/ignored")\nfrom real_answer import double\n' "$ROOT" > answer.py
commit

#=== reads-from-home world=pytest
printf 'def double(n):\n    return n * 2\n' > "$HOME/real_answer.py"
printf 'import os, sys\nsys.path.insert(0, "%s")\nfrom real_answer import double\n' "$HOME" > answer.py
commit

#=== reads-from-the-temporary-folder world=pytest
printf 'def double(n):\n    return n * 2\n' > "$SCRATCH/real_answer.py"
printf 'import os, sys\nsys.path.insert(0, "%s")\nfrom real_answer import double\n' "$SCRATCH" > answer.py
commit

#=== fills-a-cache-in-home
# A check that believes what it found out before.
bad; commit
mkdir -p "$HOME/.cache/checked"
touch "$HOME/.cache/checked/$(git rev-parse HEAD:one.txt)"
#--- file check.sh
mark="$HOME/.cache/checked/$(git hash-object "$1.txt")"
[ -f "$mark" ] || test "$(cat "$1.txt")" = 42

#=== fills-a-cache-in-the-temporary-folder
bad; commit
touch "${TMPDIR:-/tmp}/checked-$(git rev-parse HEAD:one.txt)"
#--- file check.sh
mark="${TMPDIR:-/tmp}/checked-$(git hash-object "$1.txt")"
[ -f "$mark" ] || test "$(cat "$1.txt")" = 42

#=== leaves-a-file-in-the-next-worktree sprints=2 unwanted=foreign.txt
# Before its turn comes.
good; commit
mkdir -p "$(dirname "$WORKTREE")/1-2-two"
echo foreign > "$(dirname "$WORKTREE")/1-2-two/foreign.txt"

#=== leaves-a-file-in-a-neighbours-worktree sprints=2 beside=2 unwanted=foreign.txt racy=yes
good; commit
other="$(dirname "$WORKTREE")/1-1b-two"
i=0; while [ ! -f "$other/keep.txt" ] && [ $i -lt 400 ]; do sleep 0.05; i=$((i + 1)); done
echo foreign > "$other/foreign.txt"
#--- then
i=0; while [ ! -f foreign.txt ] && [ $i -lt 60 ]; do sleep 0.05; i=$((i + 1)); done
good; git add two.txt; git commit -qm "my own work"

#=== mends-the-main-checkout
bad; commit
echo 42 > "$ROOT/one.txt"
git -C "$ROOT" commit -qam "there it is"

#=== one-verifier-mends-for-the-next
# A build may make files; it has no business with those that are checked in.
bad
echo 'print(42, file=open("one.txt", "w"))' > build.py
commit
#--- verify
{python} build.py
sh check.sh {sprint}
#--- file build.py
pass
