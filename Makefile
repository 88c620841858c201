# `make demo` and `make test` work on a fresh machine with Python 3.11 and make.
PYTHON ?= python3
BIN := .venv/bin
export JAX_ENABLE_X64 := 1

.PHONY: demo test test-slow fuzz lint format bench figures results docs explore clean

demo: .venv/.base
	$(BIN)/motorcost demo -o demo

test: .venv/.dev .venv/.browser
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

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
	$(BIN)/python docs/make_figures.py $(ARGS)
	$(BIN)/python docs/how/figures.py

results: .venv/.dev
	$(BIN)/motorcost reproduce all --scale laptop -o reproduced --page docs/results.md $(ARGS)

docs: .venv/.dev
	$(BIN)/python -m sphinx -b html -W --keep-going -n docs docs/_build/html
	$(BIN)/python docs/check_offline.py docs/_build/html

explore: .venv/.base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[explore]'
	$(BIN)/motorcost explore $(ARGS)

clean:
	rm -rf .venv demo docs/_build

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

# Debian's Chromium, for the tests of pages; without it they are skipped, and say so.
.venv/.browser: .venv/.dev
	command -v chromium >/dev/null || { command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
		echo "NO CHROMIUM: the tests of pages will be skipped; install it with your package manager"
	touch $@
