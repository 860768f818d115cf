# Everything works from a fresh clone with python3 and make alone: each target does the set-up that it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CODE   := src tests $(wildcard bench deploy evaluation examples packages reference scorecard)
TOGETHER ?= 3
TESTS   = $(BIN)/python -m pytest -q -n $(TOGETHER) --dist loadfile --no-loadscope-reorder \
          --ignore-glob "tests/scorecard/test_small_timed*"
PIP    := $(BIN)/python -m pip --disable-pip-version-check --no-input -qq
LOCK   := $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes \
          --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

# Tests start hundreds of processes: each would compile all of the code anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: e2e full help quick run test test-agents containers lint types imports unit clients conformance evaluate bench bench-quick bench-compare bench-lists bench-events bench-history bench-paint bench-mcp bench-delivery scorecard scorecard-small screenshots readme-picture packages reference docs format lock clean

# Run $(2) as the stage $(1) and say how it ended and how long it took.
define stage
@printf '\n== %s\n' '$(1)'; began=$$(date +%s); status=0; $(2) || status=$$?; \
took=$$(($$(date +%s) - began)); \
if [ $$status -eq 0 ]; then printf '== %s passed in %s s\n' '$(1)' $$took; \
else printf '== %s FAILED in %s s\n' '$(1)' $$took; exit $$status; fi
endef

help: ## list the targets
	@printf 'Duetime: make <target>\n\n'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.run ## dashboard, API, MCP and a worker with sample tasks, shown live; Ctrl-C stops it
	@$(BIN)/duetime serve --demo $(ARGS)

quick: $(VENV)/.dev ## lint, imports and the tests without a process, a socket or PostgreSQL: the inner loop
	$(call stage,quick,$(MAKE) --no-print-directory lint imports && \
	  $(BIN)/python -m pytest -q --quick -n 2 --dist loadfile $(ARGS))

test: $(VENV)/.dev ## lint, types, imports, unit and a small scorecard: what has to pass before a merge
	$(call stage,test,$(MAKE) --no-print-directory lint imports types unit scorecard-small)

lint: $(VENV)/.dev ## ruff: rules and formatting
	$(call stage,lint,$(BIN)/ruff check -q --output-format concise $(CODE) && $(BIN)/ruff format -q --check $(CODE))

types: $(VENV)/.dev ## mypy, strict
	$(call stage,types,$(BIN)/mypy --num-workers 2 $(CODE))

imports: $(VENV)/.dev ## import-linter: imports point down
	$(call stage,imports,$(BIN)/lint-imports --no-logo)

unit: $(VENV)/.dev ## the tests not marked `later`, on SQLite and a real PostgreSQL; ARGS="-k name" chooses
	$(call stage,unit,$(TESTS) -m "not later" --ignore tests/e2e $(ARGS))

e2e: $(VENV)/.dev ## the tests marked `later`: tests/e2e and what takes long elsewhere; CI runs it after `make test`
	$(call stage,e2e,$(TESTS) -m later $(ARGS))

screenshots: $(VENV)/.dev ## pictures of every page, wide and narrow, light and dark: FOLDER=somewhere, ARGS="now timeline"
	@$(BIN)/python -m tests.support.screenshots $(or $(FOLDER),.cache/screenshots) $(ARGS)

readme-picture: $(VENV)/.dev ## renew the picture of the dashboard in the README
	@$(BIN)/python -m tests.support.screenshots --readme

# One line after the other: they measure, and would measure each other.
scorecard-small: $(VENV)/.dev ## the lines of the scorecard that measure time, and a load of events, with a few of each sort; unit and e2e run the others
	$(call stage,scorecard-small,$(BIN)/python -m pytest -q -p no:xdist tests/scorecard/test_small_timed*.py)

clients: $(VENV)/.dev ## the TypeScript SDK's client and the Inspector against a real server; installs them from npm
	@$(BIN)/python -m tests.support.node
	$(call stage,clients,$(BIN)/python -m pytest -q tests/e2e/test_mcp_clients.py $(ARGS))

test-agents: $(VENV)/.dev ## real agents wake against a scripted model, offline; installs them from npm (2 GB)
	@$(BIN)/python -m tests.support.node agents
	$(call stage,test-agents,DUETIME_TEST_AGENTS=1 $(BIN)/python -m pytest -q tests/agents $(ARGS))

containers: $(VENV)/.dev ## the compose files in a Docker engine: two nodes, a failover, a Dask cluster; takes ports 8765 and 8766
	$(call stage,containers,DUETIME_TEST_CONTAINERS=1 $(BIN)/python -m pytest -q -p no:xdist tests/containers $(ARGS))

conformance: $(VENV)/.dev ## the MCP conformance suite from npm, both protocol eras, against a real server
	$(call stage,conformance,$(BIN)/python -m tests.clients.conformance)

evaluate: $(VENV)/.dev ## a model answers evaluation/evaluation.xml with the tools; needs ANTHROPIC_API_KEY
	@$(BIN)/python -m evaluation $(ARGS)

full: $(VENV)/.dev ## every test at its full size: all zones to 2037, both stores, fuzzing and all hostile text
	$(call stage,full,DUETIME_FULL=1 $(MAKE) --no-print-directory unit e2e scorecard-small)

bench: $(VENV)/.dev ## every workload beside its peers, on both stores; ARGS="--only burst --stores sqlite", OTHER=folder
	@$(BIN)/python -m bench $(if $(OTHER),--other $(OTHER)) $(ARGS)

bench-quick: $(VENV)/.dev ## every workload small, without peers, within a minute
	@$(BIN)/python -m bench --quick $(ARGS)

bench-compare: $(VENV)/.dev ## bursts, creates and lateness beside another checkout, in alternating runs: OTHER=folder
	@$(BIN)/python -m bench.compare $(OTHER) $(ARGS)

bench-lists: $(VENV)/.dev ## first pages of lists beside a million schedules and runs; fails beyond its bound
	@$(BIN)/python -m bench.lists $(ARGS)

bench-events: $(VENV)/.dev ## 10,000 events a minute over HTTP, each for one of 100 listeners; fails beyond its bounds. ARGS="--schedules 1000000" stores others beside them
	@$(BIN)/python -m bench.events $(ARGS)

bench-history: $(VENV)/.dev ## claims, histories, retention and a migration beside 10,000,000 runs on PostgreSQL; fails beyond its bounds
	@$(BIN)/python -m bench.history $(ARGS)

bench-paint: $(VENV)/.dev ## first paint and size of every page in Chromium, with 100 and 10,000 schedules; fails beyond its bounds
	@$(BIN)/python -m bench.paint $(ARGS)

bench-mcp: $(VENV)/.dev ## what MCP over stdio costs beside a bare server of the SDK; fails beyond its bounds
	@$(BIN)/python -m bench.mcp $(ARGS)

bench-delivery: $(VENV)/.dev ## notifications beside a bare HTTP client, and beside a dead host; fails beyond its bounds
	@$(BIN)/python -m bench.delivery $(ARGS)

scorecard: $(VENV)/.dev ## kills, chaos, power cuts, hostile clients: one table; FULL=1 the stated counts, LINE=name one line
	@$(BIN)/python -m scorecard

packages: $(VENV)/.dev ## wheel, sdist, MCP bundle and registry entry into dist/, equal to the byte on every build
	@$(BIN)/python -m packages

reference: $(VENV)/.dev ## regenerate docs/reference from the code
	@$(BIN)/python -m reference

docs: $(VENV)/.dev ## build the documentation as a site with search in build/site; broken links are errors
	@$(BIN)/python -m reference.site

format: $(VENV)/.dev ## rewrite the code the way lint wants it
	@$(BIN)/ruff check -q --fix $(CODE); $(BIN)/ruff format $(CODE)

lock: $(VENV)/.lock ## pin dependencies anew after a change of pyproject.toml; UPGRADE=1 takes newer versions
	@$(LOCK) pyproject.toml --group build -o requirements/run.txt
	@$(LOCK) pyproject.toml --group build --group dev --extra all --extra celery --extra dask -c requirements/run.txt -o requirements/dev.txt
	@$(LOCK) pyproject.toml --group build --extra channels --extra postgres -c requirements/dev.txt -o requirements/container.txt
	@$(LOCK) --group lock -o requirements/lock.txt
	@$(LOCK) --group install -o requirements/install.txt
	@echo 'requirements/ is up to date with pyproject.toml'

clean: ## remove the environment, caches and build products
	@rm -rf $(VENV) .cache build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

# ------------------------------------------------------------------------------------------------------- set-up
# A stamp is younger than what it was made from; a set-up that failed or is out of date is repeated.

$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null || { \
	  echo 'Duetime needs Python 3.11 or newer, and there is no $(PYTHON) here.' >&2; \
	  echo 'Install one, or name it: make PYTHON=/path/to/python3.12 run' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Duetime needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1)." >&2; \
	  echo 'Install a newer one and name it: make PYTHON=python3.12 run' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo '$(PYTHON) cannot make a virtual environment: its modules venv and ensurepip are missing.' >&2; \
	  echo 'On Debian and Ubuntu: apt install python3-venv; on other systems, install the full Python.' >&2; exit 1; }
	@echo 'Setting up $(VENV) (once; about a minute) ...'
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# The interpreter brings a pip, and older ones a setuptools, of its own age: the first is replaced, nobody needs the second.
$(VENV)/.tools: requirements/install.txt $(VENV)/.made
	@$(PIP) install --require-hashes -r requirements/install.txt
	@$(PIP) uninstall -y setuptools 2>/dev/null
	@touch $@

$(VENV)/.run-packages: requirements/run.txt $(VENV)/.tools
	@$(PIP) install --require-hashes -r requirements/run.txt
	@touch $@

$(VENV)/.dev-packages: requirements/dev.txt $(VENV)/.tools
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@ $(VENV)/.run-packages

$(VENV)/.lock: requirements/lock.txt $(VENV)/.tools
	@$(PIP) install --require-hashes -r requirements/lock.txt
	@touch $@

$(VENV)/.run: pyproject.toml $(VENV)/.run-packages
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

# The development packages include the ones for running; both stamps are then true.
$(VENV)/.dev: pyproject.toml $(VENV)/.dev-packages
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.run
