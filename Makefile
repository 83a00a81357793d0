# Seven words: serve, test, check, fix, bench, soak, docs. Each does its own set-up.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
STORE ?=
ON := $(if $(STORE),--store $(STORE))
SECONDS ?= 60

.PHONY: serve test check fix bench soak docs install clean

serve: $(VENV)/.core
	$(BIN)/perseid serve $(ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist loadgroup $(ON) $(ARGS)

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/unit/test_architecture.py

fix: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev
	$(BIN)/python -m bench $(ON) $(ARGS)

soak: $(VENV)/.dev
	$(BIN)/python -m tests.model $(SECONDS) $(ON) $(ARGS)

docs: $(VENV)/.dev
	$(BIN)/python -m pytest -q tests/test_docs.py

install: $(VENV)/.dev

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.core: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@touch $@ $(VENV)/.core
