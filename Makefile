# Everything a contributor runs. `make help` lists it; `make run` is enough to begin.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CODE := src tests scripts hatch_build.py $(wildcard bench examples)
# Extra arguments: make run ARGS="--print-json", make test ARGS="-k cursor -x"
ARGS ?=
# Tests at once: they wait for processes more than they compute. A worker that is done takes tests from another one.
JOBS ?= 4
PYTEST = $(BIN)/python -m pytest
BESIDE = -n $(JOBS) --dist worksteal
QUICK = not slow and not code_server and not docker and not ray and not rare

COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header

.PHONY: help setup run test test-most test-all test-thorough test-root test-root-slow test-rare test-floors test-docker test-ray test-slow test-storms test-alone test-vscode coverage check format docs bundle release bench lock clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with exactly the locked packages
	@:

$(READY): pyproject.toml requirements/dev.txt requirements/bootstrap.txt requirements/zig.txt scripts/setup.sh $(wildcard src/outlive/native/*.[ch] src/outlive/native/*/*.[ch])
	@echo "setting up $(VENV) (once)" >&2
	@VENV=$(VENV) PYTHON='$(PYTHON)' scripts/setup.sh

run: $(READY) ## start the server (Ctrl-C stops it, not the processes)
	@exec $(BIN)/outlive serve $(ARGS)

test: $(READY) ## the tests a change must keep green (minutes)
	@$(PYTEST) $(BESIDE) -m "$(QUICK) and not thorough" $(ARGS)

test-all: test-most test-docker test-ray test-vscode test-slow test-rare ## every test, the kill storm and a real VS Code included

test-thorough: $(READY) ## those that take seconds each: every door killed, refused and crowded
	@$(PYTEST) $(BESIDE) -m "$(QUICK) and thorough" $(ARGS)

test-most: $(READY) ## `make test` and `make test-thorough`, collected once
	@$(PYTEST) $(BESIDE) -m "$(QUICK)" $(ARGS)

test-root: $(READY) ## as root: what needs it, and whether the walls hold for root, too
	@$(PYTEST) $(BESIDE) -m "$(QUICK) and (root or walls)" $(ARGS)

test-root-slow: $(READY) ## as root: the storms that need it
	@$(PYTEST) $(BESIDE) -m "slow and not rare and root" $(if $(filter tests/%,$(ARGS)),,$$(grep -rl --include='*.py' 'mark\.slow' tests)) $(ARGS)

test-slow: test-storms test-alone ## those that take minutes

test-floors: $(READY) ## the tests that ARGS name, in processes that trace branches; .coverage keeps what was reached
	@$(PYTEST) $(BESIDE) -m "$(QUICK)" --cov --cov-append --cov-report= $(ARGS)

# Only files that say `slow` are collected: importing all others takes 9 s of processor time in each worker.
test-storms: $(READY) ## of the slow ones those that wait and kill, beside each other
	@$(PYTEST) $(BESIDE) -m "slow and not alone and not rare" $(if $(filter tests/%,$(ARGS)),,$$(grep -rl --include='*.py' 'mark\.slow' tests)) $(ARGS)

test-alone: $(READY) ## of the slow ones those that measure, one after the other
	@$(PYTEST) -m "slow and alone and not rare" $(if $(filter tests/%,$(ARGS)),,$$(grep -rl --include='*.py' 'mark\.alone' tests)) $(ARGS)

# What walks through everything, or fills a disk: once for a release, and where its own part changes.
test-rare: $(READY) ## those that `.ci/run` leaves out: a log of 5 GB, 5,000 processes, every error at every verb
	@$(PYTEST) -m "rare and not docker and not ray and not code_server" $(if $(filter tests/%,$(ARGS)),,$$(grep -rl --include='test_*.py' 'mark\.rare' tests) tests/contract) $(ARGS)

test-docker: $(READY) ## Docker mode at a real daemon: OUTLIVE_TEST_DOCKER_HOST, or one that is started here (root)
	@$(PYTEST) -m "docker and not slow" $(ARGS)

test-ray: $(READY) ## places leased by a real Ray cluster, which it installs (285 MB)
	@scripts/ray.sh
	@$(PYTEST) -m ray tests/extensions/ray tests/contract $(ARGS)

test-vscode: $(READY) ## the extension in a real VS Code, which it installs (a minute, 800 MB)
	@scripts/vscode.sh
	@scripts/code-server.sh
	@$(PYTEST) -m code_server tests/vscode/code_server $(ARGS)

coverage: $(READY) ## `make test`, measured: branches of src, server and keeper included
	@PYTHONPATH=$(CURDIR)/scripts/measure:$(CURDIR)/src $(PYTEST) $(BESIDE) -m "$(QUICK)" --cov --cov-report=term --cov-fail-under=90 $(ARGS)

check: $(READY) ## lint, format, types, import contracts
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy --strict $(CODE)
	$(BIN)/lint-imports

format: $(READY) ## put imports and layout in order
	$(BIN)/ruff check --fix-only $(CODE)
	$(BIN)/ruff format $(CODE)

docs: $(READY) ## the documentation as a site, in site/
	@$(BIN)/python -m scripts.site $(ARGS)

bundle: $(READY) ## the bundle for one-click MCP hosts, and server.json: ARGS="--namespace io.github.NAME"
	@$(BIN)/python -m scripts.bundle $(ARGS)

release: $(READY) ## everything that is published, into dist; nothing is uploaded: ARGS="--namespace io.github.NAME"
	@scripts/release.sh $(ARGS)

bench: $(READY) ## measure against the naive way and websocketd, side by side
	@$(BIN)/python -m bench $(ARGS)

lock: $(READY) ## write requirements/*.txt anew from pyproject.toml
	$(COMPILE) --upgrade requirements/bootstrap.in -o requirements/bootstrap.txt
	$(COMPILE) --upgrade pyproject.toml -o requirements/runtime.txt
	$(COMPILE) --upgrade pyproject.toml --group dev --extra docker --extra otel -c requirements/runtime.txt -o requirements/dev.txt
	$(COMPILE) --upgrade requirements/browser.in -c requirements/dev.txt -o requirements/browser.txt
	$(COMPILE) --upgrade requirements/ray.in -c requirements/dev.txt -o requirements/ray.txt
	$(COMPILE) --upgrade requirements/openapi-clients.in -o requirements/openapi-clients.txt
	$(COMPILE) --upgrade requirements/token-counter.in -o requirements/token-counter.txt
	$(COMPILE) --upgrade requirements/agent-peers.in -o requirements/agent-peers.txt
	$(COMPILE) --upgrade requirements/release.in -o requirements/release.txt
	$(COMPILE) --upgrade requirements/zig.in -c requirements/release.txt -o requirements/zig.txt

clean: ## remove what the above has made
	rm -rf $(VENV) dist build site htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find src tests $(wildcard bench) -name __pycache__ -type d -prune -exec rm -rf {} +
