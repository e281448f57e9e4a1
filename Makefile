# make demo   see what gradproof says about right and wrong gradients
# make test   format, lint, types, import contracts, tests
# Both make .venv by themselves; a second run finds it ready.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST_ARGS ?= -n 2
CODE := src tests examples benchmarks

# One thread per process: two processes already fill a small machine, and sums come out
# the same wherever they run.
export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help venv demo test format clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

venv: $(READY)

# The build backend is installed first and used as it is (--no-build-isolation), so that
# constraints.txt pins it too.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "gradproof needs Python 3.11 or later; set PYTHON=..., e.g. make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@echo "==> Making $(VENV) with the versions in constraints.txt (a few minutes the first time: torch is large)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --constraint constraints.txt hatchling editables
	@echo "==> Installing gradproof and what its tests need"
	@$(BIN)/python -m pip install -qq --constraint constraints.txt --no-build-isolation --editable '.[torch,report,test,dev]'
	@touch $@

demo: $(READY)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

test: $(READY)
	@echo "==> Format (ruff format --check)"
	@$(BIN)/ruff format --check $(CODE)
	@echo "==> Lint (ruff check)"
	@$(BIN)/ruff check $(CODE)
	@echo "==> Types (mypy --strict)"
	@$(BIN)/mypy --strict
	@echo "==> Who may import whom (lint-imports)"
	@$(BIN)/lint-imports
	@echo "==> Tests (pytest)"
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

format: $(READY)
	@$(BIN)/ruff format $(CODE)
	@$(BIN)/ruff check --fix $(CODE)

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
