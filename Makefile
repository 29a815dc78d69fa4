PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Where it is set, each of the many processes would compile all of it again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test check fmt bench slow sandbox clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(STAMP) ## serve an example workspace, and run a task whose server is killed in the middle
	@$(BIN)/python examples/demo.py

test: $(STAMP) sandbox ## run every test that takes seconds
	@# By folders: what takes seconds comes last, so that both processes are done at the same time.
	@$(BIN)/pytest -q -m "not slow and not live" -n 2 --dist loadfile --no-loadscope-reorder --durations=10

check: $(STAMP) ## lint, types, layers, architecture
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/pytest -q tests/architecture

fmt: $(STAMP) ## format and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(STAMP) ## measure, against a floor measured in the same run
	@$(BIN)/python -m benchmarks

slow: $(STAMP) sandbox ## run the tests that take minutes
	@$(BIN)/pytest -q -m slow -n 2 --dist load --timeout 7200 --durations=10

# The tests of the sandbox need bubblewrap. Without it they are skipped, and pytest says which and why.
sandbox:
	@command -v bwrap >/dev/null || { echo "installing bubblewrap"; apt-get install -qq -y bubblewrap >/dev/null 2>&1; } \
	|| { apt-get update -qq && apt-get install -qq -y bubblewrap; } >/dev/null 2>&1 \
	|| echo "bubblewrap is not there and cannot be installed: the tests that need a sandbox will be skipped"

clean: ## remove everything that make made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip comes first and alone: the one that a venv is born with may not know `--group`.
$(STAMP): pyproject.toml constraints.txt
	@echo "setting up $(VENV) (first time, or the dependencies changed)"
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Holdfast needs Python 3.11 or newer: make PYTHON=…")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq -c constraints.txt --upgrade pip
	@$(BIN)/python -m pip install -qq -c constraints.txt --build-constraint constraints.txt -e . --group dev
	@touch $@
