# make bench   install what a study needs, run the embedded study, print the verdict table
# make setup   install everything that the tests and the documentation need
# make test    set up, check, run the test suite
# make quick   set up, run tests that take about a minute
# make gpu-test, make gpu-bench   on a CUDA GPU: run the tests that need one, and time a step; the results are dated
# make arm     set up, run the compiled kernels on an emulated ARM processor, compile them for macOS
# make dist    build the archive of the sources and the wheel, and check them
# make wheelhouse  download everything that make setup installs, for a machine without a network
# make docs    build the documentation's site, strictly and without a network, into build/site
# make versions  run the quick tests with the wheel and each Python here, with the oldest and the newest torch
# make soak    set up, run the tests that make test leaves out, then small faults in the code, then random trainings

PYTHON ?= python3
VENV   ?= .venv
# uv does not read pip's configuration: pass it pip's find-links, which may contain a local torch wheel.
export UV_FIND_LINKS ?= $(shell $(PYTHON) -m pip config get global.find-links 2>/dev/null)
# Without such a wheel, take the build of torch for this machine: without a GPU it has a fifth of the size.
ifeq ($(UV_FIND_LINKS),)
export UV_TORCH_BACKEND ?= auto
endif

# Containers set it. Every process would then compile the libraries that it loads, which takes most of its start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := setup
.PHONY: setup bench test quick arm dist addresses docs wheelhouse versions soak check browser gpu-test gpu-bench clean

setup: $(VENV)/.installed

SOURCES = pyproject.toml setup.py constraints.txt src/psilogic/tensors/addresses.cpp $(wildcard src/psilogic/backends/cpu/cpp/*)
INSTALL = $(VENV)/bin/uv pip install --quiet --python $(VENV)/bin/python -c constraints.txt

# Debian and Ubuntu ship python3 without the package for virtual environments. For root it is installed.
$(VENV)/bin/uv:
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	    echo '$(PYTHON) cannot make virtual environments; on Debian or Ubuntu: apt install python3-venv'; \
	    test "$$(id -u)" = 0 && grep -qs debian /etc/os-release && echo 'since this is root, apt-get installs it now' && \
	    apt-get update -qq && apt-get install -qqy python3-venv; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet uv

# What a study of the suites on embedded data needs, about a third of everything.
$(VENV)/.installed-bench: $(VENV)/bin/uv $(SOURCES)
	$(INSTALL) -e '.[bench]'
	touch $@

# Everything includes it. The workers of the tests start at once: each would compile the Python that all of them load.
AT_START = $(addprefix $(VENV)/lib/python3*/site-packages/,torch numpy scipy matplotlib sympy)

$(VENV)/.installed: $(VENV)/bin/uv $(SOURCES)
	$(INSTALL) --group docs -e '.[bench,data,dev,ray,zoo]'
	$(VENV)/bin/python -m compileall -qq -j 0 $(AT_START) || true  # torch has a file for newer Pythons alone
	touch $(VENV)/.installed-bench $@

bench: $(VENV)/.installed-bench
	$(VENV)/bin/fairbench run mini --output-dir results/mini
	@echo 'the command is $(VENV)/bin/fairbench; to call it as fairbench: source $(VENV)/bin/activate'

check: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

# The report's page is tested in a browser, its tables by TeX. Without them these tests are skipped, and say what is missing.
# On Debian root gets them by apt, after a line that says so. To skip that: make test TOOLS=
TOOLS = chromium chromedriver pdflatex
PACKAGES = chromium chromium-driver texlive-latex-recommended

browser:
	@for tool in $(TOOLS); do command -v $$tool; done | wc -l | grep -qx $(words $(TOOLS)) || { \
	    echo 'some tests need programs that are missing; on Debian: apt install $(PACKAGES)'; \
	    if test "$$(id -u)" = 0 && grep -qsx ID=debian /etc/os-release; then \
	        echo 'since this is root, apt-get installs them now: $(PACKAGES)'; \
	        export DEBIAN_FRONTEND=noninteractive; \
	        apt-get update -qq && apt-get install -qqy --no-install-recommends $(PACKAGES) >/dev/null || true; fi; }

# Three workers on two cores: many tests wait for processes that they have started.
test: browser check
	$(VENV)/bin/pytest -n 3

# Tests without large libraries and without further processes, which take longer to load than these tests to run.
QUICK = $(addprefix tests/psilogic/,$(addsuffix .py,test_update_rule test_adamw test_errors test_monitor \
    backends/test_cpu tensors/test_scalars tensors/test_memory tensors/test_host_norms)) \
    $(addprefix tests/fairbench/,$(addsuffix .py,study/test_plan analysis/test_significance analysis/test_verdicts))

quick: setup
	$(VENV)/bin/pytest -n 2 -m "not slow and not soak" $(QUICK)

# The kernels of the update on an emulated ARM processor, and their compilation for macOS.
arm: setup
	@for tool in aarch64-linux-gnu-g++ qemu-aarch64; do command -v $$tool; done | wc -l | grep -qx 2 || { \
	    echo 'tests for ARM need a compiler and an emulator; on Debian: apt install g++-aarch64-linux-gnu qemu-user'; \
	    if test "$$(id -u)" = 0 && grep -qsx ID=debian /etc/os-release; then \
	        echo 'since this is root, apt-get installs them now'; \
	        apt-get update -qq && apt-get install -qqy --no-install-recommends g++-aarch64-linux-gnu qemu-user >/dev/null || true; fi; }
	$(VENV)/bin/uv pip install --quiet --python $(VENV)/bin/python ziglang
	$(VENV)/bin/pytest -n 2 -m arm tests/psilogic/backends

SOAK_MINUTES ?= 30

soak: setup
	$(VENV)/bin/pytest -n 2 -m soak
	$(VENV)/bin/python tests/mutants.py
	$(VENV)/bin/python tests/psilogic/soak/fuzz.py --minutes $(SOAK_MINUTES)

# Both write into one folder for each day, which can be sent or committed. With a pipe, the exit status of a failed test would be lost.
GPU_RESULTS ?= results/gpu/$(shell date +%Y-%m-%d)

gpu-test: setup
	mkdir -p $(GPU_RESULTS)
	$(VENV)/bin/pytest -o addopts= --strict-markers -v -rs -m gpu tests > $(GPU_RESULTS)/tests.txt 2>&1; \
	    status=$$?; tail -n 40 $(GPU_RESULTS)/tests.txt; exit $$status

gpu-bench: setup
	mkdir -p $(GPU_RESULTS)
	$(VENV)/bin/python benchmarks/step_time.py --device cuda --rounds 15 --csv $(GPU_RESULTS)/step_time.csv > $(GPU_RESULTS)/step_time.txt
	$(VENV)/bin/python benchmarks/step_memory.py --device cuda --csv $(GPU_RESULTS)/step_memory.csv > $(GPU_RESULTS)/step_memory.txt
	tail -n 60 $(GPU_RESULTS)/*.txt

# The archive of the sources, and a wheel for this processor and every Linux whose C library is not much older.
dist: setup
	rm -rf dist src/*.egg-info/SOURCES.txt  # a list of an earlier build, all of which setuptools would put into the archive
	$(VENV)/bin/uv build --quiet --out-dir dist
	$(VENV)/bin/uv pip install --quiet --python $(VENV)/bin/python --group dist
	PATH="$$PWD/$(VENV)/bin:$$PATH" $(VENV)/bin/auditwheel repair --wheel-dir dist dist/*-linux_*.whl && rm dist/*-linux_*.whl
	$(VENV)/bin/abi3audit --strict --summary dist/*.whl
	$(VENV)/bin/check-wheel-contents dist/*.whl
	$(VENV)/bin/twine check --strict dist/*

# Put the address of the repository in place of what stands for it: REPOSITORY=https://HOST/OWNER/NAME make addresses
addresses:
	@test -n '$(REPOSITORY)' || { echo 'make addresses needs the address: REPOSITORY=https://HOST/OWNER/NAME make addresses'; exit 2; }
	sed -i 's|https://example.invalid/psilogic-fairbench|$(REPOSITORY)|' pyproject.toml CITATION.cff
	sed -i 's|git clone URL \(.*\)  # URL: .*|git clone $(REPOSITORY) \1|' README.md docs/templates/README.md.in CONTRIBUTING.md docs/index.md

# Every warning fails it, a link that leads nowhere among them.
docs: setup
	rm -rf build/site
	$(VENV)/bin/python -m sphinx -n -W --keep-going -E -q docs build/site
	@echo build/site/index.html

# Everything that make setup installs, for a machine without a network. There:
# PIP_NO_INDEX=1 PIP_FIND_LINKS=wheelhouse UV_OFFLINE=1 UV_FIND_LINKS=wheelhouse make test
wheelhouse: setup
	mkdir -p build
	$(VENV)/bin/uv pip compile --quiet --no-annotate --no-header -c constraints.txt --group docs -o build/docs.txt
	$(VENV)/bin/python -m pip wheel --quiet --wheel-dir wheelhouse -c constraints.txt uv setuptools -r build/docs.txt \
	    '.[bench,data,dev,ray,zoo]'

# Python:torch, the oldest and the newest of both that the package promises; `lowest` is the oldest of every dependency. Types are
# checked for versions without a Python here, too.
VERSIONS ?= 3.10:lowest 3.10:2.13.0 3.11:2.13.0 3.12:2.8.0 3.13:2.15.0 3.14:2.15.0 3.15:2.15.0

versions: dist
	@for pair in $(VERSIONS); do \
	    python=$${pair%:*}; torch=$${pair#*:}; folder=build/versions/$$pair; \
	    $(VENV)/bin/mypy --python-version $$python >/dev/null && types=pass || types=FAIL; \
	    $(VENV)/bin/uv venv --quiet --clear --python $$python $$folder 2>/dev/null || { \
	        echo "Python $$pair: no such Python here, types $$types"; continue; }; \
	    if test $$torch != lowest; then echo torch==$$torch; else \
	        $(VENV)/bin/uv pip compile --quiet --python-version $$python --extra bench --resolution lowest-direct pyproject.toml; \
	    fi >$$folder/wanted.txt; \
	    $(VENV)/bin/uv pip install --quiet --python $$folder/bin/python "$$(echo dist/*.whl)[bench]" -r $$folder/wanted.txt \
	        hypothesis pytest pytest-xdist statsmodels tensorboard && \
	    $$folder/bin/pytest -n 2 -m "not slow and not soak" $(QUICK) >$$folder/quick.txt 2>&1 && quick=pass || quick=FAIL; \
	    echo "Python $$pair: types $$types, quick tests $$quick ($$(tail -n 1 $$folder/quick.txt))"; \
	done

clean:
	rm -rf $(VENV) build dist wheelhouse src/psilogic/*/*.so src/psilogic/backends/cpu/*.so
