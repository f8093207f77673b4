# The two commands of the README are `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Every start would compile all modules again, and tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test thorough lint types style unit kill-test fault-test bench soak fuzz screenshots docs clean

# In order, so that the short tests of tests/unit come last and no worker is alone then.
BY_FILE := --dist loadfile --no-loadscope-reorder

run: $(STAMP)
	@$(BIN)/ipu-workbench

test: lint
	$(BIN)/python -m pytest -q -n 3 $(BY_FILE) -m 'not thorough' --quick

# All tests, also further combinations of what `make test` holds in one, and a cluster;
# with all that frameworks do in every test.
thorough: lint
	$(BIN)/python -m pytest -q -n 2 $(BY_FILE)

# Types take longest, so the rest is checked beside them.
lint: $(STAMP)
	@$(MAKE) --no-print-directory -j 2 types style

types: $(STAMP)
	$(BIN)/mypy

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

unit: $(STAMP)
	$(BIN)/python -m pytest -q tests/unit

# Kills runs of every API up to 30 times each, and sweeps, and resumes them: half an hour.
kill-test: $(STAMP)
	IPU_WORKBENCH_KILLS=30 \
	IPU_WORKBENCH_KILL_APIS=cpu,ipu_strategy,ipu_estimator,ipu_pipeline_estimator \
		$(BIN)/python -m pytest -q --timeout 1800 \
		tests/headless/test_kill_and_resume.py tests/headless/test_sweep_survives.py \
		tests/runtime/test_resume_inside_epochs.py

# Lets every call on a file fail, or be the last, of every kind of command; an hour.
fault-test: $(STAMP)
	IPU_WORKBENCH_FAULTS=1 $(BIN)/python -m pytest -q -n 2 --dist loadgroup tests/faults

# About 10,000 hostile files, changes and records; ten minutes.
fuzz: $(STAMP)
	IPU_WORKBENCH_FUZZ=fuzz $(BIN)/python -m pytest -q --timeout 1800 -n 2 $(BY_FILE) tests/fuzz

# Exact versions of everything, what builds this project included, and no code of
# others that runs while it is installed.
PINNED := --quiet --only-binary :all: --constraint constraints.txt --no-compile

# There while .venv is changed: if that was cut off, nothing in it is certain.
UNFINISHED := $(VENV).unfinished

# The stamp is newer than what it was made from, so a second call installs nothing.
# What a killed make leaves running holds the lock on this file, which the next one
# waits for. A pip that fails by itself has put back what it had begun to change; it
# compiles on one core, so that is done apart.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else "ipu-workbench needs Python 3.11 to 3.13, but $(PYTHON) is %d.%d: try make PYTHON=python3.12" % v)'
	@set -e; exec 9<Makefile; \
	lock() { $(PYTHON) -c "import fcntl; fcntl.flock(9, fcntl.LOCK_EX | $$1)" 2>/dev/null; }; \
	install() { \
		$(BIN)/python -m pip install $(PINNED) "$$@" && return; code=$$?; \
		[ $$code -gt 128 ] || rm -f $(UNFINISHED); exit $$code; \
	}; \
	lock fcntl.LOCK_NB || { echo "another make installs: waiting for it"; lock 0; }; \
	if [ $(STAMP) -nt pyproject.toml ] && [ $(STAMP) -nt constraints.txt ]; then exit; fi; \
	if [ -e $(UNFINISHED) ]; then rm -rf $(VENV); fi; \
	touch $(UNFINISHED); \
	echo "installing into $(VENV), which takes minutes the first time"; \
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV); \
	install --upgrade pip setuptools wheel packaging; \
	install --no-build-isolation --editable . --group dev; \
	$(BIN)/python -m compileall -q -j 0 $(VENV)/lib ipu_runtime workbench tests; \
	touch $(STAMP); rm -f $(UNFINISHED)

# QUICK=1 takes fewer rounds and less than three minutes.
bench: $(STAMP)
	$(BIN)/python -m bench $(if $(QUICK),--quick)

# Twenty runs in one process for ten minutes: memory may not grow from run to run.
soak: $(STAMP)
	$(BIN)/python -m bench.soak

# The pictures of the README, from real small runs.
screenshots: $(STAMP)
	$(BIN)/python docs/screenshots.py

# The generated tables of README and docs.
docs: $(STAMP)
	$(BIN)/python -m docs.generate

clean:
	rm -rf $(VENV) $(UNFINISHED)
