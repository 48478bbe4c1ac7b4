# Needs nothing but make and a Python >= 3.11: each target sets itself up in $(VENV) first, and quickly the second time.

VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The first interpreter on PATH that is new enough and can make a virtual environment.
PYTHON ?= $(shell for python in python3 python python3.11 python3.12 python3.13 python3.14 python3.15; do \
	$$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$python; break; }; done)

# Node comes from the lock, so that pyright does not meet whatever node the machine has.
export PYRIGHT_PYTHON_GLOBAL_NODE := 0
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# uv works in the tree's own environment with the interpreter it was given, and fetches no other.
export UV_PYTHON_DOWNLOADS := never
export VIRTUAL_ENV := $(abspath $(VENV))
# The tests start hundreds of processes: without byte code each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help check test long mutants demo docs bench browser lock clean

help:
	@echo "make test     every check: lint, types, layers, tests, the built wheel (FAST=1: the quick ones)"
	@echo "make check    lint, types and layers alone (FAST=1: without the types of tests)"
	@echo "make long     what takes minutes: new examples, campaigns of kills and faults, pages installed from scratch"
	@echo "make mutants  breaks one rule of the code at a time, and prints the test that fails"
	@echo "make demo     a forwarder's bot that is killed at work; checks each promise"
	@echo "make docs     the documentation, built into site/"
	@echo "make bench    what things cost, beside peers (ARGS=--quick: a first look)"
	@echo "make browser  tests of the sandbox's board in a real browser"
	@echo "make lock     compile requirements/ again (UPGRADE=--upgrade: to the newest versions)"
	@echo "make clean    remove what the other targets made"

# One lock has the hashes of every group; an environment takes those that it needs.
LOCKED = --require-hashes --requirements pyproject.toml --all-extras --group dev --constraints requirements/dev.txt

# uv replaces pip once it is there; a half-made or moved environment is made anew.
$(READY): requirements/uv.txt requirements/dev.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python >= 3.11 with venv and ensurepip found; name one: make PYTHON=..." >&2; exit 1; }
	@{ test -x $(BIN)/uv && $(BIN)/python -c ""; } 2>/dev/null || { \
		echo "making $(VENV) with $(PYTHON)"; \
		$(PYTHON) -m venv --clear $(VENV) && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt; }
	@$(BIN)/uv pip install --quiet --exact $(LOCKED) --requirements requirements/uv.txt
	@$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# Each check says what it found, also after another has failed.
SNIPPETS := build/snippets
CHECKS := "ruff check ." "ruff format --check ." "lint-imports --no-logo" \
	$(if $(FAST),"mypy src","python tools/pages.py --extract $(SNIPPETS)" \
	"mypy src tests tools examples benchmarks $(SNIPPETS)" "pyright --pythonpath $(BIN)/python")
check: $(READY)
	@failed=0; for check in $(CHECKS); do \
		echo "--- $$check"; $(BIN)/$$check || { failed=1; echo "FAILED: $$check"; }; \
	done; exit $$failed

# A third of a worker's time is waits for processes and sockets: four workers keep two cores busy. Workers must collect
# the same tests: some are named by the order of a set.
PYTEST := PYTHONHASHSEED=0 $(BIN)/python -m pytest
QUICK := tests/contract/test_document.py tests/sandbox/test_service.py tests/test_mutants.py $(wildcard tests/unit/test_*.py) \
	$(patsubst %,tests/calls/test_%.py,requests errors paging matrix writes secrets)

# What reads or builds the code runs beside the tests; its output follows.
test: $(READY)
	@mkdir -p build; { failed=0; $(MAKE) --no-print-directory check || failed=1; \
		$(if $(FAST),,echo "--- the wheel"; $(BIN)/python tools/wheel.py || failed=1;) exit $$failed; } >build/beside.log 2>&1 & \
	$(PYTEST) -n 4 --dist worksteal $(if $(FAST),-q $(QUICK)); tests=$$?; \
	wait $$!; beside=$$?; cat build/beside.log; \
	echo "tests $$tests, checks $$beside (exit statuses)"; test $$tests = 0 -a $$beside = 0

long: $(READY)
	@$(BIN)/python -m pytest -m "long or hypothesis" -o faulthandler_timeout=0 --hypothesis-profile=search --backends=both
	@$(BIN)/python tools/pages.py --install

mutants: $(READY)
	@$(BIN)/python -m tests.mutants $(ARGS)

demo: $(READY)
	@$(BIN)/python examples/demo.py

# Environments of docs, bench and browser: .venvs/docs, .venvs/bench, .venvs/browser.
.venvs/%/.ready: $(READY)
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venvs/$*
	@VIRTUAL_ENV=$(abspath .venvs/$*) $(BIN)/uv pip install --quiet $(LOCKED) --group $*
	@VIRTUAL_ENV=$(abspath .venvs/$*) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

docs: .venvs/docs/.ready
	@.venvs/docs/bin/zensical build --strict --clean

bench: .venvs/bench/.ready
	@.venvs/bench/bin/python -m benchmarks $(ARGS)

browser: .venvs/browser/.ready
	@.venvs/browser/bin/python -m pytest -m browser tests/browser

# Names, versions and hashes only: no header, no index, no address.
LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links $(UPGRADE)
lock:
	@test -x $(BIN)/uv || $(MAKE) $(READY)
	@$(LOCK) requirements/uv.in --output-file requirements/uv.txt
	@$(LOCK) pyproject.toml --all-extras --group dev --group docs --group bench --group browser \
		--output-file requirements/dev.txt
	@! grep -n '://' requirements/*.txt

clean:
	rm -rf $(VENV) .venvs .cache build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
