PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Where it is set, each of the many processes would compile all of it again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
# The console is built where there is Node 20; elsewhere the server runs without it, and the tests that need it are skipped.
CONSOLE := src/holdfast/console/static/index.html
CONSOLE_SOURCES := $(shell find console -name node_modules -prune -o -type f ! -name "*schema.d.ts" -print)
NODE := node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)' 2>/dev/null

.PHONY: help run test check fmt bench slow sandbox console browser screenshots clean japanese

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(STAMP) console ## serve an example workspace, and run a task whose server is killed in the middle
	@$(BIN)/python examples/demo.py

test: $(STAMP) sandbox console browser ## run every test that takes seconds, but for those of `make check`
	@# By folders: what takes seconds comes last, so that both processes are done at the same time.
	@# Those of the architecture belong to `make check`.
	@$(BIN)/pytest -q -m "not slow and not live" --ignore=tests/architecture -n 2 --dist loadfile --no-loadscope-reorder --durations=10

check: $(STAMP) ## lint, types, layers, architecture
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/pytest -q tests/architecture
	@if $(NODE) && $(MAKE) -s console/node_modules/.package-lock.json; then cd console && npm run -s lint && npm run -s types && npx --no-install tsc --noEmit; \
	else echo "Node 20 or newer is not there: the console is not checked"; fi

fmt: $(STAMP) ## format and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
	@if test -d console/node_modules; then cd console && npm run -s format; fi

console: ## build the console, with Node 20 or newer
	@if $(NODE); then $(MAKE) -s $(CONSOLE); else echo "Node 20 or newer is not there: the server will run without the console"; fi

screenshots: $(STAMP) console browser ## take pictures of every screen, in both themes and two sizes
	@$(BIN)/python -m tests.console.screenshots

# `make bench providers` measures only what it names.
ifeq (bench,$(firstword $(MAKECMDGOALS)))
MEASURES := $(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS))
.PHONY: $(MEASURES)
$(MEASURES): bench
	@:
endif

bench: $(STAMP) ## measure, against a floor measured in the same run; `make bench NAME …` for some
	@$(BIN)/python -m benchmarks $(MEASURES)

slow: $(STAMP) sandbox ## run the tests that take minutes
	@$(BIN)/pytest -q -m slow -n 2 --dist load --durations=10

# The tests of the sandbox need bubblewrap. Without it they are skipped, and pytest says which and why.
sandbox:
	@command -v bwrap >/dev/null || { echo "installing bubblewrap"; apt-get install -qq -y bubblewrap >/dev/null 2>&1; } \
	|| { apt-get update -qq && apt-get install -qq -y bubblewrap; } >/dev/null 2>&1 \
	|| echo "bubblewrap is not there and cannot be installed: the tests that need a sandbox will be skipped"

# Japanese vectors for recall, from a pinned wheel whose hash is checked. Without them Japanese recall is lexical, and says so.
JAPANESE := src/holdfast/memory/japanese.bin
japanese: $(JAPANESE) ## build the Japanese vectors that recall and the wheel use
$(JAPANESE): src/holdfast/memory/japanese.py
	@echo "building the Japanese vectors of recall"
	@$(BIN)/python -m pip download -qq --no-deps --only-binary :all: -d $(VENV)/wheels ja-ginza==5.3.0
	@$(BIN)/python -m holdfast.memory.japanese $(VENV)/wheels/ja_ginza-5.3.0-py3-none-any.whl

# The tests of the console need a browser. Without it they are skipped, and pytest says which and why.
browser:
	@command -v chromium >/dev/null || { echo "installing chromium"; apt-get install -qq -y chromium >/dev/null 2>&1; } \
	|| { apt-get update -qq && apt-get install -qq -y chromium; } >/dev/null 2>&1 \
	|| echo "chromium is not there and cannot be installed: the tests that need a browser will be skipped"

$(CONSOLE): console/node_modules/.package-lock.json docs/reference/openapi.json docs/reference/events.schema.json $(CONSOLE_SOURCES)
	@echo "building the console"
	@cd console && npm run -s build >/dev/null

console/node_modules/.package-lock.json: console/package-lock.json
	@echo "installing what the console is built with"
	@cd console && npm ci --silent
	@touch $@

clean: ## remove everything that make made
	rm -rf console/node_modules console/src/api/*schema.d.ts src/holdfast/console/static
	rm -rf $(VENV) $(JAPANESE) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What pip does: on a terminal in one line that changes, elsewhere one line for each stage. Its warnings are left out.
define SHOW_PROGRESS
/^ *ERROR|^ *error|^ *×|^ *╰/ { print; next } \
/^ *(Collecting|Downloading|Building|Preparing|Installing)/ { \
    if (terminal) printf "\r  %-70.70s", $$1 " " $$2 " " $$3; \
    else if (!seen[$$1]++) print "  " tolower($$1) " packages"; \
    fflush() } \
END { if (terminal) printf "\r  %-70.70s\n", "packages" }
endef

# pip comes first and alone: the one that a venv is born with may not know `--group`.
$(STAMP): pyproject.toml constraints.txt
	@echo "setting up $(VENV) (first time, or the dependencies changed): one to three minutes"
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Holdfast needs Python 3.11 or newer: make PYTHON=…")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "  pip"
	@$(BIN)/python -m pip install -qq -c constraints.txt --upgrade pip
	@rm -f $(VENV)/.failed
	@terminal=; if test -t 1; then terminal=yes; fi; \
	{ $(BIN)/python -m pip install --no-color -c constraints.txt --build-constraint constraints.txt -e . --group dev 2>&1 || touch $(VENV)/.failed; } \
	| awk -v terminal="$$terminal" '$(SHOW_PROGRESS)'
	@test ! -e $(VENV)/.failed
	@$(MAKE) -s japanese || echo "the Japanese vectors could not be built: recall of Japanese will be lexical"
	@touch $@
