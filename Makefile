PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= data
OUTPUT ?= runs
# Each process of the tests spends a quarter of a minute on imports: one for each core, four at most.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(4, os.cpu_count() or 1))')
# TORCH=cpu takes torch and torchvision from PyTorch's builds for the CPU alone, 4 GB less.
TORCH ?=

.PHONY: install search test proof lint docs lock clean

# The same versions, of which torch and torchvision alone are not in the lock's hashes; as in deploy/image/Dockerfile.
define INSTALL_ON_CPU
grep -oE '^torch(vision)?==[0-9.]+' requirements.lock | xargs $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --torch-backend cpu
	$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --requirement pyproject.toml --extra dev --constraint requirements.lock
endef

# The lock file is installed with its hashes; bytecode is compiled once here, because it halves the start of every process.
$(VENV)/.installed: requirements.lock requirements-uv.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info[:2] <= (3, 13) else "Python 3.11 to 3.13 is needed, this is %d.%d: make PYTHON=python3.12 ..." % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.lock
	$(if $(filter cpu,$(TORCH)),$(INSTALL_ON_CPU),$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --require-hashes -r requirements.lock)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

install: $(VENV)/.installed

search: install $(DATA)/scenes/dataset_scenes.json
	$(BIN)/orchestrator search scenes-smoke --data-root $(DATA) --output $(OUTPUT)
	$(BIN)/orchestrator report scenes-smoke --data-root $(DATA) --output $(OUTPUT)

$(DATA)/scenes/dataset_scenes.json: | install
	$(BIN)/orchestrator data generate scenes --images 2000 --seed 0 --out $(DATA)/scenes

# What needs no Ray, no server, no browser and no second process, and three proofs from end to end. Each worker computes
# on one thread: processes that wait for each other's threads on two cores take ten times as long.
test: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

# All the rest, as long as it takes; interrupted, it goes on where it was.
proof: install
	$(BIN)/python -m tests.proofs --all --workers $(WORKERS)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The Markdown files as a site, with the API reference; a link or an anchor that leads nowhere ends it.
docs: install
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fresh-env --fail-on-warning --keep-going --quiet -c docs/site -d build/site/.doctrees . build/site/html
	@echo "open build/site/html/README.html"

# Solves pyproject.toml for Python 3.11 to 3.13 on Linux and macOS.
lock: install
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --extra dev --generate-hashes --quiet \
	  --upgrade --custom-compile-command "make lock" --output-file requirements.lock

clean:
	rm -rf $(VENV) build
