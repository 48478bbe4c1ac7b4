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

.PHONY: help setup demo demo-fleet demo-tender demo-watcher test test-all test-long test-offers test-search test-browser pytest wheel-test snippets lint \
	types layers format deploy-check docs bench lock clean

help:
	@echo "make demo          a forwarder's bot that is killed at work; checks each promise"
	@echo "make demo-tender   a tender with both sides as bots, both killed at work"
	@echo "make demo-fleet    three replicas of a bot on one PostgreSQL, killed and frozen at work"
	@echo "make demo-watcher  a watcher that is killed at night: published, seen, missed, repeated"
	@echo "make test          every check: lint, types, layers, tests, the built wheel (FAST=1: the quick ones)"
	@echo "make test-all      the tests and the wheel on each Python >= 3.11 of this machine"
	@echo "make test-long     the tests that take minutes"
	@echo "make test-offers   random schedules and crashes of a shipper's side"
	@echo "make test-search   the property tests with new examples"
	@echo "make test-browser  the sandbox's board in a real browser"
	@echo "make snippets      the code blocks of the pages, each in an environment of its own"
	@echo "make deploy-check  the files of deploy/, without a container engine"
	@echo "make docs          the documentation, built into site/"
	@echo "make bench         what things cost, beside peers (ARGS=--quick: a first look)"
	@echo "make lint | types | layers | pytest | wheel-test   one check alone"
	@echo "make format        format the code"
	@echo "make lock          compile requirements/ again (UPGRADE=--upgrade: to the newest versions)"
	@echo "make setup         the environment of the tests, which each target makes itself"
	@echo "make clean         remove what the other targets made"

setup: $(READY)

# uv replaces pip once it is there; a half-made or moved environment is made anew.
$(READY): requirements/uv.txt requirements/dev.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python >= 3.11 with venv and ensurepip found; name one: make PYTHON=..." >&2; exit 1; }
	@{ test -x $(BIN)/uv && $(BIN)/python -c ""; } 2>/dev/null || { \
		echo "making $(VENV) with $(PYTHON)"; \
		$(PYTHON) -m venv --clear $(VENV) && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt; }
	@$(BIN)/uv pip sync --quiet --require-hashes requirements/uv.txt requirements/dev.txt
	@$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY)
	@$(BIN)/python examples/demo.py

demo-fleet: $(READY)
	@$(BIN)/python examples/fleet.py

demo-tender: $(READY)
	@$(BIN)/python examples/demo_tender.py

demo-watcher: $(READY)
	@$(BIN)/python examples/watching.py

# FAST=1: the checks to run each minute.
test: $(READY)
	@$(BIN)/python tools/check.py $(if $(FAST),--fast)

test-all: $(READY)
	@$(BIN)/python tools/each_python.py

test-long: $(READY)
	@$(BIN)/python -m pytest -m long -o faulthandler_timeout=0 --hypothesis-profile=search --backends=both

# 20,000 random schedules of the feed of offers, and 200 crashes and 200 kills around answers to offers.
test-offers: $(READY)
	@$(BIN)/python tools/offers_table.py
	@$(BIN)/python tools/answer_crashes.py --crashes 200
	@$(BIN)/python tools/answer_kills.py --kills 200

test-search: $(READY)
	@$(BIN)/python -m pytest -m "hypothesis and not long" --hypothesis-profile=search

pytest: $(READY)
	@$(BIN)/python -m pytest

snippets: $(READY)
	@$(BIN)/python -m tools.snippets

lint: $(READY)
	@$(BIN)/python tools/check.py lint format

types: $(READY)
	@$(BIN)/python tools/check.py snippets mypy pyright

layers: $(READY)
	@$(BIN)/python tools/check.py layers

deploy-check: $(READY)
	@$(BIN)/python tools/deploy_check.py

wheel-test: $(READY)
	@$(BIN)/python tools/check.py wheel

format: $(READY)
	@$(BIN)/python -m ruff check --fix-only .
	@$(BIN)/python -m ruff format .

# Environments of docs, bench and test-browser: .venvs/docs, .venvs/bench, .venvs/browser.
.venvs/%/.ready: requirements/%.txt $(READY)
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venvs/$*
	@VIRTUAL_ENV=$(abspath .venvs/$*) $(BIN)/uv pip sync --quiet --require-hashes requirements/dev.txt requirements/$*.txt
	@VIRTUAL_ENV=$(abspath .venvs/$*) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

docs: .venvs/docs/.ready
	@.venvs/docs/bin/zensical build --strict --clean
	@.venvs/docs/bin/python tools/check_site.py site

bench: .venvs/bench/.ready
	@.venvs/bench/bin/python -m benchmarks $(ARGS)

test-browser: .venvs/browser/.ready
	@.venvs/browser/bin/python -m pytest -m browser tests/browser

# Names, versions and hashes only: no header, no index, no address.
LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links $(UPGRADE)
lock:
	@test -x $(BIN)/uv || $(MAKE) setup
	@$(LOCK) requirements/uv.in --output-file requirements/uv.txt
	@$(LOCK) pyproject.toml --group dev --all-extras --output-file requirements/dev.txt
	@for group in docs bench browser; do \
		$(LOCK) pyproject.toml --group $$group --constraint requirements/dev.txt --output-file requirements/$$group.txt; done
	@! grep -n '://' requirements/*.txt

clean:
	rm -rf $(VENV) .venvs .cache build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
