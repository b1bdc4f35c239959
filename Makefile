# Everything a developer runs. `make` alone lists the targets.

PYTHON ?= python3
# Three workers keep two cores busy, since tests also wait; give JOBS=auto for one per core.
JOBS ?= 3
# Further words for pytest: make test ARGS='-k plan'
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
LOCKED := $(VENV)/.locked
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# Commands without a .py ending are Python when their first line says so.
SCRIPTS := $(shell grep -lsE '^\#!.*python' $$(find scripts -type f ! -name '*.py' 2>/dev/null) /dev/null)
TYPED := src tests bench $(wildcard scripts/*.py scripts/*/*.py tools/*.py tools/site/*.py)

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo picture metrics trace architecture docs dist test test-all test-rest test-nightly lint format \
    bench lock bd temporal agents clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

venv: $(INSTALLED) ## Make .venv with everything locked, and the project in it
	@:

$(LOCKED): requirements-dev.lock
	@command -v $(PYTHON) >/dev/null || { \
	    echo "make: '$(PYTHON)' is not on PATH. Install Python 3.11 or newer, or name one: make venv PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "make: Python 3.11 or newer is needed; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
	    echo "      Name another one: make venv PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	    echo "make: '$(PYTHON)' cannot make virtual environments: its modules venv and ensurepip are missing." >&2; \
	    echo "      On Debian and Ubuntu: apt-get install python3-venv. Or name another: make venv PYTHON=python3.12" >&2; exit 1; }
	@echo "venv: installing into $(VENV)"
# --clear: what a former lock installed must not stay behind.
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --require-hashes --requirement requirements-dev.lock
	@touch $@

# Apart from the above, so that a change of settings in pyproject.toml costs seconds.
$(INSTALLED): $(LOCKED) pyproject.toml
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@$(PIP) check >/dev/null || { $(BIN)/python -m pip check; echo "make: the lock does not fit pyproject.toml: make lock" >&2; exit 1; }
	@touch $@

demo: venv ## Run the demonstration
	@$(BIN)/beads-ralph demo

picture: venv ## Record the demonstration anew for the README, at a terminal and in the browser
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/demo_picture.py
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/board_pictures.py

metrics: venv ## Measure the source: size, layers, copies; ARGS=--details names what is counted
	@$(BIN)/python tools/metrics.py --trace $(ARGS)

trace: venv ## Print the rooms that one bead goes through
	@$(BIN)/python tools/trace_bead.py $(ARGS)

architecture: venv ## Write rooms, picture, trace and numbers into docs/internals/architecture.md
	@$(BIN)/python tools/rooms.py --write >/dev/null
	@$(BIN)/python tools/trace_bead.py --write >/dev/null
	@$(BIN)/python tools/metrics.py --trace --write

docs: venv ## Build the documents as a site with search into build/site: open its index.html
	@$(BIN)/python tools/site/build.py

# From a clean export of the last commit: what lies about in the tree does not get into a release.
dist: venv ## Build wheel and sdist of the last commit into dist/
	@rm -rf dist
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	git archive HEAD | tar -x -C "$$dir"; \
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) && export SOURCE_DATE_EPOCH; \
	(cd "$$dir" && "$(CURDIR)/$(BIN)/python" -m hatchling build -d "$(CURDIR)/dist")

# Recipe lines share nothing, so what needs bd's path is one shell command.
WITH_BD = bd=$$(tools/bd/install) && \
	if [ -n "$$bd" ]; then export BEADS_RALPH_BD="$$bd" PATH="$$(dirname "$$bd"):$$PATH"; fi
WITH_AGENTS = BEADS_RALPH_AGENTS=$$(tools/agents/install) && export BEADS_RALPH_AGENTS
WITH_EVERY_AGENT = BEADS_RALPH_AGENTS=$$(tools/agents/install --nightly) && export BEADS_RALPH_AGENTS
WITH_AXE = BEADS_RALPH_AXE=$$(tools/axe/install) && export BEADS_RALPH_AXE
WITH_TEMPORAL = BEADS_RALPH_TEMPORAL=$$(tools/temporal/install) && export BEADS_RALPH_TEMPORAL
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test: venv ## Check what a change may break: lint, and tests that take minutes
	@tools/system-packages
	@$(WITH_BD) && $(WITH_AGENTS) && $(WITH_AXE) && $(MAKE) lint && $(PYTEST) $(ARGS)

test-all: venv ## Check everything: every repeat, every agent CLI, chaos, benchmarks, coverage
	@tools/system-packages
	@$(WITH_BD) && $(WITH_EVERY_AGENT) && $(WITH_AXE) && $(WITH_TEMPORAL) && $(MAKE) lint && \
	BEADS_RALPH_TESTS=all $(PYTEST) -m "" --cov --cov-report=term $(ARGS)

# One at a time in the order of their worth, since time may run out: make test-rest WITHIN=600
WITHIN ?= 86400
test-rest: venv ## Test what test-all has and test has not, for WITHIN seconds at most
	@tools/system-packages
	@$(WITH_BD) && $(WITH_AGENTS) && $(WITH_AXE) && $(WITH_TEMPORAL) && \
	BEADS_RALPH_TESTS=all $(BIN)/python -m pytest -n $(JOBS) --dist load --maxschedchunk 1 \
	    -p no:randomly -m "full and not nightly" --timeout 300 --within $(WITHIN) $(ARGS)

test-nightly: venv ## Test the agent CLIs of the larger set too: opencode and copilot
	@tools/system-packages
	@$(WITH_EVERY_AGENT) && $(BIN)/python -m pytest -m nightly $(ARGS)

lint: venv ## Check style, types and layers
	@$(BIN)/ruff check --quiet . $(SCRIPTS)
	@$(BIN)/ruff format --quiet --check . $(SCRIPTS)
	@$(BIN)/mypy --no-error-summary $(TYPED)
# One at a time: to mypy each of them is the module __main__.
	@for script in $(SCRIPTS); do $(BIN)/mypy --no-error-summary "$$script" || exit; done
	@$(BIN)/lint-imports --no-logo
	@echo "lint: clean"

format: venv ## Rewrite the Python files in the agreed style
	@$(BIN)/ruff check --quiet --fix-only . $(SCRIPTS)
	@$(BIN)/ruff format . $(SCRIPTS)

bench: venv ## Measure
	@$(BIN)/python -m bench $(ARGS)

# uv writes one lock for every platform and Python version; it is needed for nothing else.
lock: ## Resolve the dependencies anew and write both lock files
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(PYTHON) -m venv "$$dir/venv"; \
	"$$dir/venv/bin/python" -m pip --quiet --disable-pip-version-check install uv; \
	compile() { "$$dir/venv/bin/uv" pip compile --quiet --upgrade --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-header pyproject.toml "$$@" >/dev/null; }; \
	compile --output-file requirements.lock; \
	compile --group dev --group build --output-file requirements-dev.lock; \
	if grep -n '://' requirements.lock requirements-dev.lock; then \
	    echo "make: a lock file names an address" >&2; exit 1; fi

bd: ## Find or build bd and print its path
	@tools/bd/install

temporal: ## Find or build the Temporal server and print its path
	@tools/temporal/install

agents: venv ## Find or install the agent CLIs and print their folder
	@tools/agents/install

clean: ## Remove what the targets above made here
	@rm -rf $(VENV) build dist .coverage .coverage.* htmlcov .mypy_cache .ruff_cache .pytest_cache \
	    .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
