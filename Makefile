# make lab     set up .venv and run a lab (ARGS="…" are options of `kernel-lab run`)
# make test    set up and pass every test that needs no GPU
# make check   lint, types and import rules
# make clean   remove what these made here; labs are kept elsewhere
#
# PYTHON names the interpreter to begin with (default: the first of the usual names that is 3.11 or newer).

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
ARGS ?=
PYTEST_ARGS ?=
PYTEST_WORKERS ?= 2

.PHONY: lab test check setup dev clean
.DEFAULT_GOAL := lab
.DELETE_ON_ERROR:

lab: setup
	@if [ "$$(uname -s)" != Linux ]; then exec $(BIN)/kernel-lab $(ARGS); fi; \
	if [ -t 0 ] && [ -t 1 ]; then exec $(BIN)/kernel-lab run --mode auto $(ARGS); \
	else exec $(BIN)/kernel-lab run --headless $(ARGS); fi

test: check
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadfile --reruns 2 -m "not gpu" $(PYTEST_ARGS)

check: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=engine/harness $(BIN)/mypy --explicit-package-bases engine/harness
	$(BIN)/lint-imports

setup: $(VENV)/.made-lab
dev: $(VENV)/.made-dev

$(VENV)/.made-venv:
	@set -e; for python in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "kernel-lab needs Python 3.11 or newer: install it, or name one with make lab PYTHON=/path/to/python" >&2; exit 2; fi; \
	echo "== $$("$$found" --version) in $(VENV)"; \
	"$$found" -m venv $(VENV) || { \
	  echo "Python's venv module is not complete: install it (Debian, Ubuntu: apt-get install python3-venv)" >&2; exit 2; }
	@touch $@

# torch first: pip would take the large CUDA build for a machine without a card. Its CPU build carries a local
# version and does not ask for triton, which compiles for the device all the same.
$(VENV)/.made-torch: $(VENV)/.made-venv
	@set -e; if [ "$$(uname -s)" != Linux ]; then \
	  echo "== no triton for $$(uname -s): labs can be watched and replayed here"; \
	elif nvidia-smi -L >/dev/null 2>&1; then \
	  echo "== torch for the GPU found here (some GB)"; $(PIP) install "torch>=2.11" "triton>=3.6,<3.10" "numpy>=1.26"; \
	else \
	  echo "== torch for the CPU (no GPU found)"; \
	  $(PIP) install "torch==2.13.0+cpu" 2>/dev/null || $(PIP) install "torch==2.13.0"; \
	  echo "== triton"; $(PIP) install "triton>=3.6,<3.10" "numpy>=1.26"; \
	fi
	@touch $@

$(VENV)/.made-lab: $(VENV)/.made-torch pyproject.toml
	@echo "== kernel-lab"
	@$(PIP) install -e .
	@touch $@

$(VENV)/.made-dev: $(VENV)/.made-lab
	@echo "== what tests and checks need"
	@$(PIP) install -e ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
