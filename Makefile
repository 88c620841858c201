# `make demo` and `make test` work on a fresh machine with Python 3.11 and make.
PYTHON ?= python3
BIN := .venv/bin
export JAX_ENABLE_X64 := 1

.PHONY: demo test test-slow fuzz lint format bench figures results clean

demo: .venv/.base
	$(BIN)/motorcost demo -o demo

test: .venv/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

test-slow: .venv/.dev
	$(BIN)/python -m pytest -m slow -s $(ARGS)

fuzz: .venv/.dev
	PYTHONPATH=tests:tests/io $(BIN)/python tests/fuzz/campaign.py $(ARGS)

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/.dev
	$(BIN)/python benchmarks/suite.py $(ARGS)

figures: .venv/.dev
	$(BIN)/python docs/make_figures.py

results: .venv/.dev
	$(BIN)/motorcost reproduce all --scale laptop -o reproduced --page docs/results.md $(ARGS)

clean:
	rm -rf .venv demo

.venv/.python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "motorcost needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	touch $@

.venv/.base: .venv/.python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

.venv/.dev: .venv/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@
