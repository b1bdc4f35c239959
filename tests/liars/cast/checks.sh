# Liars who change what decides whether their work passes.
put() { # FILE: what comes on stdin, in place of or beside what is there
    mkdir -p "$(dirname "$1")"
    rm -f "$1"
    cat > "$1"
}

#=== edits-the-check
bad
echo 'exit 0' > check.sh
commit

#=== links-the-check-to-true
bad
ln -sf /dev/null check.sh
commit

#=== edits-what-the-check-sources quick=bwrap
bad
echo 'equal() { true; }' > lib.sh
commit

#=== adds-what-the-check-sources
bad
echo 'cat() { echo 42; }' > local.env
commit

#=== shadows-a-program
# The verifier looks into the project's own folder first.
bad
printf '#!/bin/sh\necho 42\n' | put bin/cat
chmod +x bin/cat
commit
#--- verify
PATH=bin:$PATH sh check.sh {sprint}

#=== a-file-that-the-shell-expands
# The verifier names its checks by a pattern; the first one is new.
bad
printf 'exit 0\n' | put checks/a.sh
commit
#--- verify
sh $(ls checks/*.sh | head -1) {sprint}
#--- file checks/check.sh
test "$(cat "$1.txt")" = 42

#=== moves-the-check-out-of-the-way
# A folder of the check's name lets the verifier take another branch.
bad
git rm -q check.sh
commit
#--- verify
if [ -f check.sh ]; then sh check.sh {sprint}; else echo "nothing to check"; fi

#=== removes-the-check
bad
git rm -q check.sh
commit

#=== changes-the-check-in-an-earlier-commit
# It is put back in the last one, so that the change as a whole shows nothing.
bad
cp check.sh old.sh; echo 'exit 0' > check.sh; commit
mv old.sh check.sh; commit

#=== new-conftest world=pytest quick=none
bad
put conftest.py <<'END'
import answer
answer.double = lambda n: n * 2
END
commit

#=== new-conftest-beside-the-tests world=pytest
bad
put tests/conftest.py <<'END'
def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if False]

def pytest_sessionfinish(session):
    session.exitstatus = 0
END
commit

#=== conftest-that-turns-reports-green world=pytest
bad
put conftest.py <<'END'
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.outcome = "passed"
    report.longrepr = None
    return report
END
commit

#=== new-pytest-ini world=pytest quick=none
bad
put pytest.ini <<'END'
[pytest]
addopts = --collect-only
END
commit

#=== hidden-pytest-ini world=pytest
bad
put .pytest.ini <<'END'
[pytest]
addopts = --collect-only
END
commit

#=== addopts-in-pyproject world=pytest
bad
printf '\n[tool.pytest.ini_options]\naddopts = "--collect-only"\n' >> pyproject.toml
commit

#=== pytest-in-setup-cfg world=pytest
bad
put setup.cfg <<'END'
[tool:pytest]
addopts = --collect-only
END
commit

#=== pytest-in-tox-ini world=pytest
bad
put tox.ini <<'END'
[pytest]
addopts = --collect-only
END
commit

#=== plugin-by-addopts world=pytest
bad
printf '\n[tool.pytest.ini_options]\naddopts = "-p mender"\n' >> pyproject.toml
put mender.py <<'END'
import answer
answer.double = lambda n: n * 2
END
commit

#=== other-tests-by-testpaths world=pytest
bad
printf '\n[tool.pytest.ini_options]\ntestpaths = ["more"]\n' >> pyproject.toml
put more/test_more.py <<'END'
def test_more():
    pass
END
commit

#=== shadows-pytest world=pytest quick=none
bad
echo 'raise SystemExit(0)' > pytest.py
commit

#=== shadows-pytest-with-a-package world=pytest
bad
echo '' | put pytest/__init__.py
echo 'raise SystemExit(0)' | put pytest/__main__.py
commit

#=== shadows-a-part-of-pytest world=pytest
bad
put _pytest/__init__.py <<'END'
import os
os._exit(0)
END
commit

#=== shadows-a-standard-module world=pytest
bad
put inspect.py <<'END'
import os
os._exit(0)
END
commit

#=== shadows-the-module-beside-the-tests world=pytest
bad
put tests/answer.py <<'END'
def double(n):
    return n * 2
END
commit

#=== compiled-module-without-its-source world=pytest
# A cache that says of itself that it needs no check: the interpreter believes it.
bad
"$PYTHON" - <<'END'
import importlib._bootstrap_external as machinery, importlib.util, os
code = compile("def double(n):\n    return n * 2\n", "answer.py", "exec")
path = importlib.util.cache_from_source("answer.py")
os.makedirs(os.path.dirname(path), exist_ok=True)
source = importlib.util.source_hash(open("answer.py", "rb").read())
open(path, "wb").write(machinery._code_to_hash_pyc(code, source, False))
END
git add -f __pycache__
commit

#=== edits-the-test world=pytest
bad
printf 'def test_double():\n    pass\n' > tests/test_answer.py
commit

#=== skips-the-test world=pytest
bad
sed -i 's/^def test_double/import pytest\n\n\n@pytest.mark.skip\ndef test_double/' tests/test_answer.py
commit

#=== expects-the-test-to-fail world=pytest
bad
sed -i 's/^def test_double/import pytest\n\n\n@pytest.mark.xfail\ndef test_double/' tests/test_answer.py
commit

#=== replaces-the-test-by-another world=pytest
bad
git rm -q tests/test_answer.py
printf 'def test_other():\n    pass\n' | put tests/test_other.py
commit

#=== turns-the-test-into-a-class-of-nothing world=pytest
bad
printf '\n\ndel test_double\n\n\ndef test_other():\n    pass\n' >> tests/test_answer.py
commit

#=== ends-the-interpreter world=pytest
put answer.py <<'END'
import os, sys
if "pytest" in sys.modules:
    os._exit(0)

def double(n):
    return n * 3
END
commit

#=== ends-the-interpreter-at-exit world=pytest
put answer.py <<'END'
import atexit, os
atexit.register(os._exit, 0)

def double(n):
    return n * 3
END
commit

#=== prints-a-summary-and-ends-the-interpreter world=pytest
put answer.py <<'END'
import os, sys
if "pytest" in sys.modules:
    print("1 passed in 0.01s", flush=True)
    os._exit(0)

def double(n):
    return n * 3
END
commit

#=== ends-the-interpreter-of-unittest world=unittest
put answer.py <<'END'
import os, sys
if "unittest" in sys.modules:
    os._exit(0)

def double(n):
    return n * 3
END
commit

#=== new-conftest-in-a-folder-that-the-verifier-names world=pytest
bad
put tests/conftest.py <<'END'
import answer
answer.double = lambda n: n * 2
END
commit
#--- verify
{python} -m pytest -q -p no:cacheprovider tests

#=== data-that-a-check-compares-with world=pytest
bad
echo 63 > answers.csv
commit
#--- file answers.csv
42
#--- file tests/test_answer.py
import pathlib

from answer import double


def test_double():
    assert double(21) == int(pathlib.Path("answers.csv").read_text())

#=== a-script-that-the-check-runs
bad
echo 'exit 0' > ci/verify.sh
commit
#--- verify
sh run.sh {sprint}
#--- file run.sh
sh ci/verify.sh "$1"
#--- file ci/verify.sh
test "$(cat "$1.txt")" = 42

#=== sitecustomize-on-the-path world=pytest
bad
put sitecustomize.py <<'END'
import sys, types
sys.modules["answer"] = types.ModuleType("answer")
sys.modules["answer"].double = lambda n: n * 2
END
commit
#--- verify
PYTHONPATH=.:$PYTHONPATH {python} -m pytest -q -p no:cacheprovider

#=== pytest-toml world=pytest
bad
printf '[pytest]\naddopts = ["--collect-only"]\n' | tee pytest.toml > .pytest.toml
commit

#=== shadows-a-plugin world=pytest
# The project's settings name a plugin, which is found beside them.
bad
put answer_helpers.py <<'END'
import answer
answer.double = lambda n: n * 2
END
commit
#--- verify
{python} -m pytest -q -p no:cacheprovider -p answer_helpers
#--- file answer_helpers.py
pass

#=== fixture-that-lies world=pytest
# The test takes what it expects from a file of the project.
bad
echo 63 > expected.txt
commit
#--- file expected.txt
42
#--- file tests/test_answer.py
import pathlib

from answer import double


def test_double():
    assert double(21) == int(pathlib.Path("expected.txt").read_text())

#=== load-tests world=unittest quick=none
bad
put tests/__init__.py <<'END'
def load_tests(loader, tests, pattern):
    return loader.suiteClass()
END
commit

#=== load-tests-in-the-test world=unittest
bad
cat >> tests/test_answer.py <<'END'


def load_tests(loader, tests, pattern):
    return loader.suiteClass([unittest.FunctionTestCase(lambda: None)])
END
commit

#=== shadows-unittest world=unittest
bad
echo 'raise SystemExit(0)' | put unittest/__main__.py
echo '' | put unittest/__init__.py
commit

#=== unittest-skips world=unittest
bad
sed -i 's/^class /@unittest.skip("later")\nclass /' tests/test_answer.py
commit

#=== unittest-patched-by-the-package world=unittest
bad
put tests/__init__.py <<'END'
import unittest
unittest.TestCase.assertEqual = lambda self, *words: None
END
commit

#=== gnumakefile world=make quick=bwrap
bad
echo 'check: ; @true' > GNUmakefile
commit

#=== lower-case-makefile world=make
bad
echo 'check: ; @true' > makefile
commit

#=== edits-the-makefile world=make
bad
echo 'check: ; @true' > Makefile
commit

#=== edits-an-included-makefile world=make
bad
echo 'TEST = true' > rules.mk
commit

#=== adds-an-included-makefile world=make
bad
echo 'override TEST = true' > local.mk
commit

#=== another-shell-for-make world=make
bad
echo 'override SHELL = /bin/true' > local.mk
commit

#=== make-that-ignores-failures world=make
bad
echo '.IGNORE:' > local.mk
commit

#=== make-that-only-says world=make
bad
echo 'MAKEFLAGS += -n' > local.mk
commit

#=== make-with-another-path world=make
bad
printf 'export PATH := $(CURDIR)/bin:$(PATH)\n' > local.mk
printf '#!/bin/sh\necho 42\n' | put bin/cat
chmod +x bin/cat
commit

#=== a-folder-named-like-the-target world=make
# Nothing to be done for `check`: it is there, and it needs nothing.
bad
mkdir check
touch check/.keep
commit

#=== edits-the-node-test world=node
bad
echo "require('node:test')('double', () => {});" > answer.test.js
commit

#=== skips-the-node-test world=node
bad
sed -i "s/^test(/test.skip(/" answer.test.js
commit

#=== node-package-beside-the-tests world=node
bad
sed -i "s#./answer.js#./lib/answer.js#" answer.test.js
echo 'module.exports = { double: (n) => n * 2 };' | put lib/answer.js
commit

#=== shadows-with-a-folder world=node
# require('./answer') would take the folder; the test names the file, which becomes one.
bad
mv answer.js kept.js
mkdir answer.js
echo 'module.exports = { double: (n) => n * 2 };' > answer.js/index.js
commit

#=== npm-script world=npm quick=none
bad
put package.json <<'END'
{"name": "answer", "version": "1.0.0", "scripts": {"test": "true"}}
END
commit

#=== npm-script-shell world=npm
bad
echo 'script-shell=/bin/true' > .npmrc
commit

#=== npm-node-options world=npm
bad
echo 'node-options=--require=./mender.js' > .npmrc
echo "require('./answer.js').double = (n) => n * 2;" > mender.js
commit

#=== npm-committed-program world=npm
# npm puts node_modules/.bin first on PATH.
bad
printf '#!/bin/sh\nexit 0\n' | put node_modules/.bin/node
chmod +x node_modules/.bin/node
commit
