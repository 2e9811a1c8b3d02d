# Every target sets up what it needs: a virtual environment in .venv with the package and the extras of that target.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

SECONDS_EACH ?= 60

.PHONY: demo test lint attack fuzz bench accelerators clean

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mxjax needs Python 3.11 or newer; try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo,test]'
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/python examples/demo/digits.py --output demo-output

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) tests

attack: $(VENV)/.test
	MXJAX_ATTACK=full $(BIN)/python -m pytest -n $(WORKERS) --timeout 3600 tests/attack

# damaged files for every reader, a minute each: guided by coverage where Atheris installs, and by mutation
fuzz: $(VENV)/.test
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[fuzz]'
	$(BIN)/python tests/attack/fuzz/fuzz.py --seconds $(SECONDS_EACH) --seed $$(date +%s) $(READERS)
	if $(BIN)/python -c 'import atheris' 2>/dev/null; then \
		$(BIN)/python tests/attack/fuzz/fuzz.py --coverage --seconds $(SECONDS_EACH) $(READERS); fi

bench: $(VENV)/.test
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/dispatch.py

# every operator compiled for an H100 and a TPU that are not here: an hour or two, and goes on where it was interrupted
ACCELERATORS := .venv-accelerators
accelerators: | $(BIN)/python
	$(BIN)/python -m venv $(ACCELERATORS)
	$(ACCELERATORS)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[cuda12,plan-tpu]'
	$(ACCELERATORS)/bin/python tools/accelerators.py --out accelerators.jsonl --table docs/accelerators.md

clean:
	rm -rf $(ACCELERATORS) $(VENV) demo-output build dist *.egg-info
