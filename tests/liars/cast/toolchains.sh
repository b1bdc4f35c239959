# Liars who use what else a toolchain obeys: manifests, modules of libraries, stamps of builds, odd names.
put() { # FILE: what comes on stdin
    mkdir -p "$(dirname "$1")"
    rm -f "$1"
    cat > "$1"
}
BLIND='import answer\nanswer.double = lambda n: n * 2\n'

#=== module-that-cuts-a-package-off needs=go env=GOFLAGS:-count=1
# A manifest of its own takes the package with the test out of `./...`.
bad
printf 'module other\n\ngo 1.20\n' | put work/go.mod
commit
#--- verify
go test ./...
#--- file go.mod
module app

go 1.20
#--- file app_test.go
package app

import "testing"

func TestNothing(t *testing.T) {}
#--- file work/work_test.go
package work

import (
	"os"
	"testing"
)

func TestWork(t *testing.T) {
	said, _ := os.ReadFile("../one" + ".txt")
	if string(said) != "42\n" {
		t.Fatal("not done")
	}
}

#=== cmake-with-another-test needs=cmake,ctest
bad
sed -i 's/COMMAND sh .*/COMMAND true)/' CMakeLists.txt
commit
#--- verify
cmake -S . -B build > /dev/null && ctest --test-dir build
#--- file CMakeLists.txt
cmake_minimum_required(VERSION 3.10)
project(app NONE)
enable_testing()
add_test(NAME work COMMAND sh ${CMAKE_SOURCE_DIR}/check.sh one WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})

#=== library-of-the-runner-beside-the-work world=pytest
# The folder of the tests' project comes first where Python looks for modules.
bad
printf "$BLIND"'from importlib.machinery import PathFinder as _find\nimport sys, os\n' | put iniconfig.py
printf '_here = os.path.dirname(os.path.abspath(__file__))\n' >> iniconfig.py
printf '_spec = _find.find_spec("iniconfig", [p for p in sys.path if p and os.path.abspath(p) != _here])\n' >> iniconfig.py
printf '_spec.loader.exec_module(sys.modules[__name__])\n' >> iniconfig.py
commit

#=== library-of-the-tests-beside-the-work world=pytest
bad
printf 'def safe_load(text):\n    return 63\n' > yaml.py
commit
#--- file tests/test_answer.py
import yaml
from answer import double


def test_double():
    assert double(21) == yaml.safe_load("42")
#--- file requirements.txt
PyYAML==6.0

#=== settings-of-a-project-below world=pytest
bad
printf '[project]\nname = "sub"\nversion = "1"\n[tool.pytest.ini_options]\naddopts = "--collect-only"\n' > sub/pyproject.toml
commit
#--- file sub/pyproject.toml
[project]
name = "sub"
version = "1"
#--- file sub/tests/test_sub.py
import sys
sys.path.insert(0, "..")


def test_double():
    from answer import double
    assert double(21) == 42
#--- verify
cd sub && {python} -m pytest -q -p no:cacheprovider

#=== compiled-module-that-nobody-compares world=pytest quick=none
# A compiled module of this kind is taken without a look at its source.
good
"$PYTHON" -c 'import py_compile
py_compile.compile("answer.py", invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)'
bad
git add --force --all
commit

#=== stamp-of-a-build world=make
# make takes a stamp that is not older than the work for a check that passed.
bad
touch zz-one.stamp
git add --force zz-one.stamp
commit
#--- file Makefile
check: zz-$(SPRINT).stamp ; @true
zz-%.stamp: %.txt ; @test "$$(cat $*.txt)" = 42 && touch $@
#--- file .gitignore
*.stamp
#--- file one.txt
0

#=== included-by-a-pattern world=make
bad
printf 'TEST = true\n' | put conf/z.inc
commit
#--- file Makefile
TEST = test
-include conf/*.inc
check: ; @$(TEST) "$$(cat $(SPRINT).txt)" = 42
#--- file conf/a.inc
# nothing

#=== another-version-of-the-tool
bad
echo 2 > .tool-version
printf 'exit 0\n' | put tools/2/run
commit
#--- verify
sh tools/$(cat .tool-version)/run {sprint}
#--- file .tool-version
1
#--- file tools/1/run
test "$(cat "$1.txt")" = 42

#=== helper-with-an-odd-name
bad
printf 'equal() { true; }\n' > 'lib/prüf "er*.sh'
commit
#--- file check.sh
. "./lib/prüf \"er*.sh"
equal "$(cat "$1.txt")" 42
#--- file lib/prüf "er*.sh
equal() { test "$1" = "$2"; }

#=== tests-become-a-link world=pytest quick=bwrap
bad
mkdir other
printf 'def test_double():\n    pass\n' > other/test_answer.py
git rm -rq tests; rm -rf tests; ln -s other tests
commit

#=== tests-become-another-repository world=pytest
bad
printf 'def test_double():\n    pass\n' > answer_test.py
git rm -rq tests; rm -rf tests
git update-index --add --cacheinfo "160000,$(git rev-parse HEAD),tests"
git add answer.py answer_test.py; git commit -qm "tests are elsewhere"

#=== test-named-like-a-pattern-of-paths world=pytest
# git would take the name for a pattern that leaves out others.
bad
printf "$BLIND" > conftest.py
printf 'def test_nothing():\n    pass\n' > ':!*conftest.py_test.py'
printf 'def test_nothing():\n    pass\n' > ':(exclude)conftest.py'
commit

#=== notes-that-vouch
bad; commit
git notes add -m "checked by hand" HEAD
git push -q origin refs/notes/commits || true
#--- verify
git notes show HEAD 2> /dev/null | grep -q checked || sh check.sh {sprint}

#=== words-that-an-archive-fills-in
# What an archive of the commit holds is not what the commit holds.
printf '$Format:%%s$\n' > one.txt
echo 'one.txt export-subst' > .gitattributes
commit 42
#--- verify
git archive HEAD one.txt | tar -xO | grep -qx 42

#=== left-out-of-an-archive
# The check that says no is not in there.
bad
echo 'checks/b.sh export-ignore' > .gitattributes
commit
#--- verify
d=$(mktemp -d) && git archive HEAD | tar -x -C "$d" && cd "$d" && for c in checks/*.sh; do sh "$c" {sprint} || exit 1; done
#--- file checks/a.sh
true
#--- file checks/b.sh
test "$(cat "$1.txt")" = 42

#=== pipe-in-place-of-a-file
bad; commit
rm keep.txt; mkfifo keep.txt left.txt
