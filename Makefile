# Every target sets up what it needs: a virtual environment in .venv with the package and the extras of that target.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 3

SECONDS_EACH ?= 60

.PHONY: demo test suite test-slow test-all lint style types attack fuzz bench figures accelerators docs convert-check cluster-check serve-check clean

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
	$(BIN)/python -m mxjax run examples/demo/digits.py --output demo-output

lint: style types

style: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(VENV)/.test
	$(BIN)/python tools/check_types.py

# The type checker, of one thread, runs beside the tests.
test: style
	$(MAKE) --jobs 2 types suite

# On two processors; a third worker computes while others wait for processes that they started. NumPy's products by one
# thread: the workers share the processors already. Processes of tests read compiled modules, whatever the environment says
suite: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) tests

# tests that are marked slow, which `test` leaves out: quicker ones have most of what they say
test-slow: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -m slow -n $(WORKERS) tests

attack: $(VENV)/.test
	MXJAX_ATTACK=full $(BIN)/python -m pytest -m '' -n $(WORKERS) --timeout 3600 tests/attack

# damaged files for every reader, a minute each: guided by coverage where Atheris installs, and by mutation
fuzz: $(VENV)/.test
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[fuzz]'
	$(BIN)/python tests/attack/fuzz/fuzz.py --seconds $(SECONDS_EACH) --seed $$(date +%s) $(READERS)
	if $(BIN)/python -c 'import atheris' 2>/dev/null; then \
		$(BIN)/python tests/attack/fuzz/fuzz.py --coverage --seconds $(SECONDS_EACH) $(READERS); fi

bench: $(VENV)/.test
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/dispatch.py

# MXNet, mxjax, flax, PyTorch and Keras side by side, 15 minutes a round; goes on where it was interrupted. MXNET_PYTHON
# names an interpreter with MXNet 1.9.1, FURTHER has more arguments (--fresh)
ROUNDS ?= 5
figures: $(VENV)/.demo
	$(BIN)/python benchmarks/figures.py --rounds $(ROUNDS) $(FURTHER)

# every operator compiled for an H100 and a TPU that are not here: an hour or two, and goes on where it was interrupted
ACCELERATORS := .venv-accelerators
accelerators: | $(BIN)/python
	$(BIN)/python -m venv $(ACCELERATORS)
	$(ACCELERATORS)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[cuda12,plan-tpu]'
	$(ACCELERATORS)/bin/python tools/accelerators.py --out accelerators.jsonl --table docs/accelerators.md

# the documentation site in site/: its code is run, its links are checked, a browser searches it where there is one
DOCS := .venv-docs
$(DOCS)/.ready: pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@

docs: export NO_MKDOCS_2_WARNING = 1
docs: $(DOCS)/.ready
	$(DOCS)/bin/python -m mkdocs build --strict --clean
	$(DOCS)/bin/python tools/docs/links.py site
	$(DOCS)/bin/python -m pytest tests/test_docs.py

# the tests under every Python that is supported; PYTHONS names the interpreters
PYTHONS ?= python3.11 python3.12 python3.13
test-all:
	for python in $(PYTHONS); do $(MAKE) test PYTHON=$$python VENV=.venv-$$python || exit 1; done

# source archive and wheel in dist/, the wheel tried in an environment of its own; a tag must be its version
wheel: | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build
	rm -rf build dist
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv dist/tried
	dist/tried/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd dist && tried/bin/python -m mxjax --version && tried/bin/python -c 'import mxjax as mx; print(mx.nd.softmax.__doc__)'
	if [ "$${GITHUB_REF_TYPE:-}" = tag ]; then dist/tried/bin/python -m mxjax --version | grep -F "mxjax $${GITHUB_REF_NAME#v} "; fi
	rm -rf dist/tried

# what `convert --to pytorch`, `flax` and `savedmodel` write, in the real libraries, which are heavy: an environment of its
# own. TORCH_INDEX names a package index with PyTorch's build for CPUs, the other one takes gigabytes
CONVERT := .venv-convert
convert-check: | $(BIN)/python
	$(BIN)/python -m venv $(CONVERT)
	$(CONVERT)/bin/python -m pip install --quiet --disable-pip-version-check $(TORCH_INDEX:%=--extra-index-url %) -e '.[pytorch,flax,tensorflow]' 'pytest>=8' 'pytest-timeout>=2.3'
	MXJAX_CONVERT=$(or $(MXJAX_CONVERT),check) $(CONVERT)/bin/python -m pytest -m '' tests/tools/test_convert_source.py tests/tools/test_convert_savedmodel.py

# jobs on a local Ray cluster, and the manifests of examples/cluster against their schemas
CLUSTER := .venv-cluster
cluster-check: | $(BIN)/python
	$(BIN)/python -m venv $(CLUSTER)
	$(CLUSTER)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[ray,cluster-check]' 'pytest>=8' 'pytest-timeout>=2.3'
	$(CLUSTER)/bin/python -m pytest --timeout 600 tests/tools/test_launch_ray.py tests/tools/test_launch_manifests.py

# the server and real clients of its protocol, which bring much with them
SERVE := .venv-serve
serve-check: | $(BIN)/python
	$(BIN)/python -m venv $(SERVE)
	$(SERVE)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[serve-ray]' 'tritonclient[http,grpc]' 'pytest>=8' 'pytest-timeout>=2.3'
	$(SERVE)/bin/python -m pytest tests/serving

clean:
	rm -rf $(ACCELERATORS) $(CONVERT) .venv-figures $(CLUSTER) $(SERVE) $(DOCS) $(VENV) site demo-output build dist *.egg-info .venv-python*
