# Every target makes the environment that it needs; nothing has to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
INSTALL := -m pip install --quiet --disable-pip-version-check
# Two processes with one thread each: more threads would only wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# A process that a test has ended ends the run: xdist would wait for ever for the rest of its group.
PYTEST := -m pytest -q -n 2 --dist loadgroup --max-worker-restart=0

.PHONY: demo test test-slow test-postgres test-oldest test-matrix lint format hooks docs build \
	check-wheel audit fuzz faults release-check bench paper clean
.DEFAULT_GOAL := test

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "shiftune needs Python 3.11 or newer: make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) -c constraints.txt -e ".[dev]"
	@touch $@

demo: $(READY)
	$(BIN)/shiftune demo

# `make test COVERAGE=--cov` also measures the share of the package's lines that the tests run.
COVERAGE :=
test: $(READY)
	$(ONE_THREAD) $(BIN)/python $(PYTEST) $(COVERAGE)

# A few tests that take long beside what they add to the others.
test-slow: $(READY)
	$(ONE_THREAD) $(BIN)/python $(PYTEST) -m slow

# Several processes on a real PostgreSQL server, which is installed if need be.
test-postgres: $(READY)
	$(BIN)/python $(INSTALL) -c constraints.txt -e ".[postgresql]"
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null \
		|| $$(command -v sudo) sh -c 'apt-get update -q && apt-get install -y --no-install-recommends postgresql'
	$(ONE_THREAD) $(BIN)/python -m pytest -q -m slow tests/search/test_join_postgresql.py

# Random problems through the API, random files through the command line, altered models; an hour.
# A seed repeats a run; one is printed.
PROBLEMS := 20000
FILES := 1000
MODELS := 5000
fuzz: $(READY)
	$(ONE_THREAD) $(BIN)/python -m fuzz --problems $(PROBLEMS) --files $(FILES) --models $(MODELS) \
		$(if $(SEED),--seed $(SEED))

# Faults at random moments: drivers, workers and journals; hours on two cores. After a stop,
# `make faults` goes on; `make faults FAULTS="--seed 1 --driver-stopped 20"` has other counts.
FAULTS :=
faults: $(READY)
	$(ONE_THREAD) $(BIN)/python -m faults --page benchmarks/results/faults.md $(FAULTS)

# The core with the lowest versions that pyproject.toml allows, in an environment of its own. Old
# versions have warnings of their own, so warnings are no errors here.
OLDEST := .venv-oldest
test-oldest: $(OLDEST)/.ready
	$(ONE_THREAD) $(OLDEST)/bin/python $(PYTEST) -W default tests/problem tests/tables tests/ratio tests/risk \
		tests/models tests/evaluate tests/metrics tests/cli/test_identifiers.py tests/cli/test_target_labels.py \
		tests/search/test_search.py tests/report/test_page.py

$(OLDEST)/.ready: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python $(INSTALL) -c constraints-oldest.txt -e ".[report]" \
		pytest pytest-timeout pytest-xdist hypothesis psutil densratio
	@touch $@

# All tests on every Python that is installed.
MATRIX := 3.11 3.12 3.13 3.14
test-matrix:
	@for version in $(MATRIX); do \
		if python$$version -c '' 2>/dev/null; then \
			echo "Python $$version"; \
			$(MAKE) --no-print-directory test PYTHON=python$$version VENV=.venv-$$version || exit 1; \
		else \
			echo "Python $$version is not installed: skipped"; \
		fi; \
	done

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# From then on git runs the linters before every commit.
hooks: $(READY)
	$(BIN)/python $(INSTALL) pre-commit
	$(BIN)/pre-commit install

# The result is not in git; open docs/_build/html/index.html.
docs: $(READY)
	$(BIN)/python $(INSTALL) -c constraints.txt -e ".[docs]"
	$(BIN)/python -m sphinx -q -W --keep-going -E docs docs/_build/html

# The sdist, and the wheel from the sdist.
build: $(READY)
	$(BIN)/python $(INSTALL) -c constraints.txt build
	rm -rf dist
	$(BIN)/python -m build

# The README's example with the wheel and nothing but what the wheel asks for.
CLEAN := .venv-clean
check-wheel: build
	rm -rf $(CLEAN)
	$(PYTHON) -m venv $(CLEAN)
	$(CLEAN)/bin/python $(INSTALL) -c constraints.txt dist/*.whl pytest
	$(CLEAN)/bin/shiftune --version
	$(CLEAN)/bin/python -m pytest -q -p no:cacheprovider -c /dev/null --rootdir . tests/test_readme.py \
		tests/test_bill_of_materials.py

# Known weaknesses of the pinned versions; skipped, with a line, where the database cannot be reached.
AUDIT := .venv-audit
audit:
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python $(INSTALL) pip-audit
	$(AUDIT)/bin/python .ci/audit.py constraints.txt

# The rehearsal of a release; CONTRIBUTING.md has the steps.
release-check: test-slow check-wheel
	$(BIN)/python .ci/release_check.py

# PEERS is the Python of an environment with the packages that benchmarks/speed/peers.py names.
PEERS :=
bench: $(READY)
	for name in core reach guard fallback ratios concept_shift samplers search; do \
		$(BIN)/python benchmarks/$$name.py || exit 1; \
	done
	$(ONE_THREAD) $(BIN)/python -m benchmarks.speed --out bench $(if $(PEERS),--peers $(PEERS))

# Hours on two cores; after a stop, `make paper` goes on.
PAPER := paper
paper: $(READY)
	for name in toy parkinson gvhd regret; do \
		$(BIN)/python -m reproduction $$name --jobs 2 --out $(PAPER)/$$name || exit 1; \
	done
	$(BIN)/python -m reproduction page $(PAPER) --out $(PAPER)/paper.md

clean:
	rm -rf .venv .venv-* docs/_build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
