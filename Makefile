# The two commands of the README are `make demo` and `make test`. Each installs what it needs into .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CHECKED := $(VENV)/.installed-check

# The suite starts hundreds of processes: whatever the shell says of bytecode, none of them compiles the tree anew.
export PYTHONDONTWRITEBYTECODE :=

# What `make check` adds to `make test`: the house rules and the examples of the docs.
DOCS := tests/house tests/docs tests/howto

.PHONY: demo test check prove chaos bench docs clean

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "calsched needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-run: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e .
	@touch $@

# `--group` needs pip 25.1, in a .venv that somebody else made, too.
$(STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet -e ".[all]" --group test
	@touch $@ $(VENV)/.installed-run

$(CHECKED): pyproject.toml $(STAMP) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --group check --group bench
	@touch $@

demo: $(VENV)/.installed-run
	@$(BIN)/python docs/examples/demo.py

# Three workers, on two cores too: many tests wait, for a lease to run out or a process to start.
test: $(STAMP)
	$(BIN)/python -m pytest -q -n 3 --dist worksteal -m "not prove and not chaos" $(foreach d,$(DOCS),--ignore $(d))

check: $(CHECKED)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -n 2 --dist worksteal $(DOCS)

prove: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 --timeout 0 -m prove

chaos: $(STAMP)
	$(BIN)/python -m pytest -q --timeout 0 -m chaos

bench: $(CHECKED)
	$(BIN)/python tests/benchmarks/run.py

clean:
	rm -rf $(VENV) build dist *.egg-info
