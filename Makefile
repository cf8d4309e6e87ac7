# Every target makes the environment it needs in .venv; nothing has to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint format bench paper clean
.DEFAULT_GOAL := test

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "shiftune needs Python 3.11 or newer; say make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(READY)
	$(BIN)/shiftune demo

test: $(READY)
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/reach.py
	$(BIN)/python benchmarks/guard.py
	$(BIN)/python benchmarks/fallback.py
	$(BIN)/python benchmarks/ratios.py
	$(BIN)/python benchmarks/stability.py
	$(BIN)/python benchmarks/samplers.py
	$(BIN)/python benchmarks/search.py

# Hours on two cores; stop it and say `make paper` again to go on.
PAPER := paper
paper: $(READY)
	for name in toy parkinson gvhd regret; do \
		$(BIN)/shiftune reproduce $$name --jobs 2 --out $(PAPER)/$$name || exit 1; \
	done
	$(BIN)/shiftune reproduce page $(PAPER) --out docs/paper.md

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
