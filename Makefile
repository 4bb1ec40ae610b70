# Two commands for a newcomer: `make demo` and `make test`. Both set up all they need in .venv.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
REPORT := $(VENV)/tests.xml
ROWS ?=
JOBS ?= 2
BESIDE := -n $(JOBS) --dist loadfile --no-loadscope-reorder --timeout-method signal
ALL := setup java chromium azurite metrics

# Ray starts thousands of processes in the tests: each would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo notebooks test test-all test-tenth durations acceptance simulate mistakes chaos fuzz check docs bench matrix peers format clean setup java chromium azurite metrics kills heads

setup: $(STAMP)

$(STAMP): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is needed: set PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(BIN)/python || { echo "== making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "== installing rayshot with its tools (some minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=24"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $(STAMP)

# PySpark needs Java 17 or newer and nothing else from outside PyPI.
java:
	@scripts/ensure-java

# The page of `rayshot report` is tested in a browser.
chromium:
	@scripts/ensure-chromium

# Azure storage is tested against Azurite, which comes from npm.
azurite: setup
	@scripts/ensure-azurite $(VENV)

# Metrics are tested with Prometheus, and with what ray[default] needs to export them.
metrics: setup
	@scripts/ensure-metrics $(VENV)

demo: setup java
	@$(BIN)/python -m examples.flights $(if $(ROWS),--rows $(ROWS),)

# Executes examples/notebooks and keeps what comes out; `python -m examples.notebooks.stores` makes what they read.
notebooks: setup java
	@$(BIN)/python -m examples.notebooks

# Files of tests side by side; `JOBS=0` runs one after the other, as `pytest` itself does. One that hangs fails by name.
test: $(ALL)
	@$(BIN)/python -m pytest $(BESIDE) --timeout 600 --junitxml $(REPORT)

# Notes how long each file took in the last `make test`: the longest go first from then on.
durations: setup
	@$(BIN)/python -m tests.durations $(REPORT)

# All of the above, and what `make test` leaves out; tests/README.md says what that is, and why.
test-all: $(ALL)
	@$(BIN)/python -m pytest -m "not long" $(BESIDE) --timeout 1800

# A tenth of what only `make test-all` runs, chosen by the commit.
test-tenth: $(ALL)
	@$(BIN)/python scripts/test-tenth $(BESIDE) --timeout 1800

# Every fault, bad input, race and load of the acceptance table, counted; fails where one does not hold.
acceptance: $(ALL)
	@$(BIN)/python -m pytest -m acceptance $(BESIDE) --timeout 1800

# The pipeline's driver and JVM, killed behind each commit to each table of each format.
kills: setup java
	@$(BIN)/python -m pytest -m long tests/spark/test_spark_pipeline.py

# The head of a cluster of two pods, killed ten times while money moves: half an hour.
heads: setup metrics
	@$(BIN)/python -m pytest -s -m long tests/k8s/test_k8s_heads.py

# The long run of the protocol: all modes, topologies, networks and faults; then actors that ask, wait in queues and
# loop; then every known wrong version.
simulate: setup
	@$(BIN)/python -m tests.simulate --schedules $(or $(SCHEDULES),100000) --seed $(or $(SEED),0)
	@$(BIN)/python -m tests.simulation --schedules $(or $(PLAYS),2000) --seed $(or $(SEED),0)
	@$(BIN)/python -m pytest tests/simulation/test_simulation_mutants.py

# Some hundred and twenty mistakes of a careful programmer, one after the other in a copy; the tests must notice each. Two hours.
mistakes: setup
	@$(BIN)/python -m tests.mistakes $(ONLY)

# Ten minutes in which something is killed every 15 seconds; `make test` has a short form of it.
chaos: setup
	@$(BIN)/python -m benchmarks chaos

# The readers of stored bytes under atheris; the test suite has a derandomised share of it.
fuzz: setup
	@$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS_MAX),60) --seed $(or $(SEED),1)

check: setup
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python scripts/bars
	@$(BIN)/python -m pytest tests/project

# The site of the documentation, in build/site; a broken link or anchor fails.
docs: setup
	@$(BIN)/python scripts/site

bench: setup
	@$(BIN)/python -m benchmarks --json docs/benchmarks/results.json --plots docs/benchmarks

# The oldest Ray, the newest and one between, each in an environment of its own: README, demo, tests. See docs/support.md.
matrix: setup java
	@$(BIN)/python scripts/matrix

# The engines that the benchmark `peers` compares with, each in an environment of its own: 2.5 GB, some minutes.
peers: setup java
	@$(BIN)/python -m benchmarks.peers.environment

format: setup
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache shots
