# Ten words: serve, test, check, fix, bench, soak, hostile, faults, clients, docs. Each one sets up
# what it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
STORE ?=
ON := $(if $(STORE),--store $(STORE))
SECONDS ?= 60
# make bench BEFORE=../before compares this checkout with that one.
BEFORE ?=
# make bench STORE=postgres PROCESSES=2 compares two server processes on one database with one.
PROCESSES ?=
# make clients DOTNET=command compiles and runs the .NET program with that command.
DOTNET ?=
# On Debian, venv is a separate package.
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo -n)
GET_VENV := { command -v apt-get >/dev/null && $(AS_ROOT) apt-get update -qq && \
  $(AS_ROOT) apt-get install -qq -y --no-install-recommends python3-venv >/dev/null; }

# Tests start hundreds of processes, and each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: serve test check fix bench soak hostile faults clients docs install clean

serve: $(VENV)/.core
	$(BIN)/perseid serve $(ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist loadgroup $(ON) $(ARGS)

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/unit/test_architecture.py tests/unit/test_names.py tests/unit/test_words.py

fix: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# make bench STORE=both compares PostgreSQL with SQLite.
ifneq ($(BEFORE),)
BENCH := bench.revisions $(BEFORE) $(ON)
else ifneq ($(PROCESSES),)
BENCH := bench.processes $(PROCESSES) $(ON)
else ifeq ($(STORE),both)
BENCH := bench.databases
else
BENCH := bench $(ON)
endif

bench: $(VENV)/.dev
	$(BIN)/python -m $(BENCH) $(ARGS)

soak: $(VENV)/.dev
	$(BIN)/python -m tests.model $(SECONDS) $(ON) $(ARGS)

hostile: $(VENV)/.dev
	$(BIN)/python -m tests.hostile $(SECONDS) $(ON) $(ARGS)

faults: $(VENV)/.dev
	$(BIN)/python -m tests.faults $(SECONDS) $(ON) $(ARGS)

clients: export PERSEID_CLIENTS := all
clients: $(VENV)/.dev
	for store in $(or $(STORE),sqlite postgres); do \
	  $(if $(DOTNET),PERSEID_DOTNET_RUN='$(DOTNET)') \
	  $(BIN)/python -m pytest -q --store $$store tests/clients $(ARGS) || exit 1; done

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python -m pytest -q tests/test_docs.py tests/test_site.py
	@echo 'Serve the site with: python3 -m http.server -d build/site'
	@echo 'build/external-links.txt lists its links to other sites.'

install: $(VENV)/.dev

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build

$(VENV)/bin/python:
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || $(GET_VENV) || \
	  { echo 'This Python has no venv module. On Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.core: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@touch $@ $(VENV)/.core
