# Two commands do everything: `make test` and `make demo`. Both set up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BROWSER := $(VENV)/.browser

.PHONY: test demo lint bench bench-check tables docs clean

test: lint $(BROWSER)
	$(BIN)/pytest -n 2 --dist loadfile

demo: $(READY)
	$(BIN)/muntin demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m scripts.tables --check

bench: $(READY)
	$(BIN)/python -m benchmarks $(WHAT)

# make bench-check WHAT="rolling --quick": what got slower since the results that are kept?
bench-check: $(READY)
	$(BIN)/python -m benchmarks --check $(WHAT)

tables: $(READY)
	$(BIN)/python -m scripts.tables

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("muntin needs Python 3.11 or newer; run make PYTHON=/path/to/python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@

# The live page is tested in a browser: the one that is there, or one that apt-get brings.
$(BROWSER): scripts/browser.py $(READY)
	@$(BIN)/python -m scripts.browser
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
