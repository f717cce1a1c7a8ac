SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo lab test lint format npm notebooks bench constraints clean
.DELETE_ON_ERROR:

PY := .venv/bin/python
NPM_STAMP := tests/npm/node_modules/.installed

# The first that runs and is new enough: a version manager may leave a python3.13 behind that only prints an error.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v $$p && break; done)

help: ## what can be made
	@sed -nE 's/^([a-z]+):.*## (.*)/\1\t\2/p' Makefile | expand -t 14

demo: .venv/.demo ## run the first lesson offline, print question, answer and trace
	$(PY) -m workbench.lesson notebooks/01-first-turn.ipynb build/demo

lab: .venv/.demo ## open JupyterLab on the lessons
	$(PY) -m jupyterlab notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

test: lint npm ## lint, types and every test
	$(PY) -m pytest

lint: .venv/.dev ## ruff and mypy
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy

format: .venv/.dev ## let ruff put it right
	$(PY) -m ruff check --fix
	$(PY) -m ruff format

npm: ## the npm servers that tests talk to
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(NPM_STAMP); \
	elif [ "$$CI" = true ]; then echo "npm not found, and CI=true requires it: install Node.js and npm" >&2; exit 1; \
	else echo "npm not found: the tests marked npm will be skipped"; fi

notebooks: .venv/.dev ## run the lessons again, outputs in place
	$(PY) -m workbench.lesson --in-place notebooks/*.ipynb

bench: .venv/.dev ## measure against the peers, side by side
	$(PY) benchmarks/run.py

# A fresh environment, so that nothing comes along that pyproject.toml does not ask for.
constraints: ## pin the newest releases that fit pyproject.toml
	rm -rf build/constraints
	"$(PYTHON)" -m venv build/constraints
	build/constraints/bin/python -m pip install --quiet ".[dev]"
	sed '/^[^#]/,$$d' constraints.txt > build/constraints.txt
	build/constraints/bin/python -m pip freeze --exclude mcp-agent-workbench | LC_ALL=C sort -f >> build/constraints.txt
	mv build/constraints.txt constraints.txt

clean: ## remove what make made
	rm -rf .venv build tests/npm/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer among python3.13, python3.12, python3.11, python3." \
		"Install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	"$(PYTHON)" -m venv .venv || { rm -rf .venv; exit 1; }

.venv/.demo: EXTRA := demo
.venv/.dev: EXTRA := dev
.venv/.demo .venv/.dev: .venv/bin/python pyproject.toml constraints.txt
	@echo "Installing what $(EXTRA) needs into .venv: once, a minute or two."
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$(EXTRA)]"
	@touch $@

$(NPM_STAMP): tests/npm/package.json
	npm install --prefix tests/npm --no-audit --no-fund --no-package-lock
	@touch $@
