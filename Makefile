# All targets share the environment in .venv, which is updated when pyproject.toml or
# constraints.txt change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
READY := $(VENV)/.ready
PYTEST_ARGS ?= -n 2 --dist worksteal
MINUTES ?= 60
COUNT ?= 20000
BENCH_ARGS ?=
SPHINX_ARGS ?=
BUILD_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help venv check test docs fuzz soak demo bench lint dist trywheel clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' Makefile

venv: $(READY)  ## create or update the environment in .venv

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "permutogeo needs Python 3.10 or newer: make PYTHON=/path/to/python3 venv"; exit 1; }
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  echo "== creating $(VENV) with $$($(PYTHON) --version)"; $(PYTHON) -m venv --clear $(VENV); fi
	@torch=$$(grep -E '^torch==' constraints.txt); \
	  echo "== installing $$torch"; $(PIP) install --quiet "$$torch" -c constraints.txt
	@echo "== installing permutogeo with the tools of tests and docs (versions from constraints.txt)"
	@$(PIP) install --quiet -e '.[test,docs]' -c constraints.txt
	@peer=$$(grep -E '^pydensecrf2==' constraints.txt); \
	  if ! command -v c++ >/dev/null && ! command -v g++ >/dev/null; then \
	    echo "== no C++ compiler: $$peer is left out, tests that compare with it are skipped"; \
	  else \
	    echo "== building $$peer, a peer that some tests compare with"; \
	    $(PIP) install --quiet "$$peer" -c constraints.txt || \
	      echo "== $$peer did not build: tests that compare with it are skipped"; \
	  fi
	@touch $@

check: lint  ## lint, types and the fast tests, in under two minutes
	@echo "== pytest -m 'not slow' $(PYTEST_ARGS)"
	@$(BIN)/python -m pytest -m 'not slow and not real_data' $(PYTEST_ARGS)

test: lint  ## lint, then run all tests (PYTEST_ARGS="-n 2 -k splat")
	@echo "== pytest $(PYTEST_ARGS)"
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

docs: $(READY)  ## build the site in docs/_build/html, without a network; warnings are errors
	@echo "== sphinx-build docs -> docs/_build/html"
	@$(BIN)/python -m sphinx -b html -W --keep-going -q $(SPHINX_ARGS) -d docs/_build/doctrees \
	  docs docs/_build/html

fuzz: $(READY)  ## mutate files of all formats (COUNT=20000); with atheris also guided by coverage
	@echo "== tests/fuzz/fuzz.py --count $(COUNT)"
	@$(BIN)/python tests/fuzz/fuzz.py --count $(COUNT)
	@if $(BIN)/python -c 'import atheris' 2>/dev/null; then \
	  for suffix in ply obj off stl pcd xyz; do \
	    echo "== tests/fuzz/guided.py $$suffix"; \
	    $(BIN)/python tests/fuzz/guided.py $$suffix --seconds 60 || exit 1; done; \
	  else echo "== without atheris (pip install permutogeo[fuzz]) no coverage-guided run"; fi

soak: $(READY)  ## long checks of threads, processes, memory and kills (MINUTES=60)
	@echo "== tests/soak.py --minutes $(MINUTES)"
	@$(BIN)/python tests/soak.py --minutes $(MINUTES)

lint: $(READY)  ## ruff format --check, ruff check, mypy
	@echo "== ruff format --check"; $(BIN)/ruff format --check .
	@echo "== ruff check"; $(BIN)/ruff check .
	@echo "== mypy"; $(BIN)/mypy

demo: $(READY)  ## denoise a body and six hard cases; meshes, pictures and a page in demo-output/
	@echo "== examples/denoise_demo.py -> demo-output/"
	@$(BIN)/python examples/denoise_demo.py --output demo-output
	@echo "== examples/hard_cases.py -> demo-output/hard_cases/"
	@$(BIN)/python examples/hard_cases.py --output demo-output/hard_cases

bench: $(READY)  ## time the engine beside its peers (BENCH_ARGS="--quick")
	@echo "== installing the peers"
	@$(PIP) install --quiet -e '.[bench]' -c constraints.txt
	@echo "== permutogeo bench $(BENCH_ARGS)"
	@$(BIN)/permutogeo bench $(BENCH_ARGS)

dist:  ## build the wheel and the source distribution in dist/
	@rm -rf build dist
	@set -e; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; $(PYTHON) -m venv "$$folder"; \
	  "$$folder/bin/python" -m pip install --quiet build -c constraints.txt; \
	  echo "== python -m build"; "$$folder/bin/python" -m build $(BUILD_ARGS)

trywheel:  ## install the wheel of dist/ into an empty environment outside the checkout and use it
	@set -e; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	  echo "== $$($(PYTHON) --version): installing $$(echo dist/*.whl)"; \
	  $(PYTHON) -m venv "$$folder/venv"; \
	  "$$folder/venv/bin/python" -m pip install --quiet dist/*.whl -c constraints.txt; \
	  cp tests/try_wheel.py "$$folder"; cd "$$folder"; \
	  echo "== try_wheel.py"; venv/bin/python try_wheel.py

clean:  ## remove the environment, outputs, caches and build products
	rm -rf $(VENV) demo-output docs/_build docs/gallery docs/api/*.rst build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
