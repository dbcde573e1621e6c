# make bench   set up, run the embedded study, print the verdict table
# make test    set up, check, run the test suite
# make quick   set up, run the tests that take a minute together

PYTHON ?= python3
VENV   ?= .venv
# uv reads no pip configuration: hand it pip's find-links, where a local torch wheel may lie.
export UV_FIND_LINKS ?= $(shell $(PYTHON) -m pip config get global.find-links 2>/dev/null)

.DEFAULT_GOAL := setup
.PHONY: setup bench test quick check clean

setup: $(VENV)/.installed

$(VENV)/bin/uv:
	$(PYTHON) tools/make_venv.py $(VENV)
	$(VENV)/bin/python -m pip install --quiet uv

$(VENV)/.installed: $(VENV)/bin/uv pyproject.toml setup.py constraints.txt $(wildcard src/psilogic/updates/native/cpp/*)
	$(VENV)/bin/uv pip install --quiet --python $(VENV)/bin/python -c constraints.txt -e '.[bench,dev]'
	touch $@

bench: setup
	$(VENV)/bin/fairbench run --suite mini --output-dir results/mini

check: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

test: check
	$(VENV)/bin/pytest -n 2

quick: setup
	$(VENV)/bin/pytest -n 2 -m "not slow and not soak" --ignore tests/psilogic/test_compile.py

clean:
	rm -rf $(VENV) build src/psilogic/updates/native/*.so
