# Every target makes the environment it needs in .venv; nothing has to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-oldest lint format docs build bench paper clean
.DEFAULT_GOAL := test

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "shiftune needs Python 3.11 or newer; say make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(READY)
	$(BIN)/shiftune demo

# One thread in each of the two processes: more would only wait for each other.
test: $(READY)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadgroup

# The core with the lowest versions that pyproject.toml allows, in an environment of its own. Old
# versions warn about things of their own, so warnings are no errors here.
OLDEST := .venv-oldest
test-oldest:
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check \
		-c constraints-oldest.txt -e ".[report]" pytest pytest-timeout pytest-xdist hypothesis psutil densratio
	$(OLDEST)/bin/python -m pytest -q -W default tests/problem tests/tables tests/ratio tests/risk tests/models \
		tests/cli/test_identifiers.py tests/cli/test_target_labels.py tests/search/test_search.py \
		tests/search/test_unseen_sites.py tests/report/test_page.py

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What is built here is not in git; open docs/_build/html/index.html.
docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	$(BIN)/python -m sphinx -q -W --keep-going -E docs docs/_build/html

build: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt build
	$(BIN)/python -m build

bench: $(READY)
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/reach.py
	$(BIN)/python benchmarks/guard.py
	$(BIN)/python benchmarks/fallback.py
	$(BIN)/python benchmarks/ratios.py
	$(BIN)/python benchmarks/stability.py
	$(BIN)/python benchmarks/samplers.py
	$(BIN)/python benchmarks/search.py

# Hours on two cores; after a stop, `make paper` goes on.
PAPER := paper
paper: $(READY)
	for name in toy parkinson gvhd regret; do \
		$(BIN)/python -m reproduction $$name --jobs 2 --out $(PAPER)/$$name || exit 1; \
	done
	$(BIN)/python -m reproduction page $(PAPER) --out $(PAPER)/paper.md

clean:
	rm -rf $(VENV) $(OLDEST) docs/_build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
