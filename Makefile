# Set-up and development tasks. `make demo` and `make test` need only Python (3.11 or newer), git, make and a C compiler.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FOREIGN := build/foreign
COMPILED_TESTS ?= tests/conformance tests/properties tests/test_compiled_build.py
ACCASIM := build/accasim
# All installed packages are pinned, including the build tools.
PIP_INSTALL := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check
AUDIT := build/audit
DOCS := build/docs-env
PINS := build/pins
FOREIGN_INSTALL := $(subst $(BIN),$(FOREIGN)/bin,$(PIP_INSTALL)) --no-compile
# The tests start thousands of processes. With stored bytecode, each needs half of the time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint types unit long batsim docker docker-images docker-checks wheel platforms api docs pictures bench bench-peers instructions \
  wheels pythons oldest compiled test-compiled asan elsewhere fuzz crashes endurance archives release audit licences soak soak-compiled clean

demo: $(VENV)/demo
	$(BIN)/python examples/demo.py

# Tasks that use one core run in parallel; the tests use all cores.
test: $(VENV)/ready
	$(MAKE) --jobs=2 --output-sync=target lint types wheel $(FOREIGN)/ready
	$(MAKE) unit

lint: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/ready
	$(BIN)/mypy -p pybatsched -p pybatsched_schedulers -p pybatsched_studies
	$(BIN)/mypy tests benchmarks examples release

# Half of the hypothesis examples; `make long` runs all of them.
unit: $(VENV)/ready $(FOREIGN)/ready
	PYBATSCHED_EXAMPLES=$${PYBATSCHED_EXAMPLES:-0.5} $(BIN)/python -m pytest -n auto

# Tests with a real Batsim, if it is on the PATH: batsim (4.2.1) and batsim5 (5.0.0-rc2).
batsim: $(VENV)/ready
	$(BIN)/python -m pytest -n auto -m 'batsim or batsim5'

# Build the images and run them with Docker Compose, if an engine is available: with the stand-in for Batsim, and with
# the image BATSIM_IMAGE if it is on this machine.
docker:
	@if docker info > /dev/null 2>&1 && docker compose version > /dev/null 2>&1; \
	then $(MAKE) docker-checks; \
	else echo 'make docker: skipped, no Docker engine with the compose plug-in is available'; fi

docker-images: $(VENV)/ready
	PYTHON=$(BIN)/python docker/images.sh

docker-checks: docker-images
	$(BIN)/python -m pytest -m docker tests/test_docker.py tests/test_compose.py

# Tests of a minute each, such as whole logs, that `make test` leaves out, and all examples of the properties.
PROPERTIES := tests/properties tests/policies tests/schedulers/test_conservative.py tests/session/test_batsim4_and_5_schedules.py
long: $(VENV)/ready $(FOREIGN)/ready
	$(BIN)/python -m pytest -n auto -m long
	$(BIN)/python -m pytest -n auto $(PROPERTIES)

# All tests in a different environment (no network, a read-only home, another locale, time zone and umask), with any
# Python: make elsewhere PYTHON=python3.13 CORES=1 LOAD=10 TESTS=tests/live. Needs root, or user namespaces.
ELSEWHERE = build/elsewhere/$(notdir $(PYTHON))
elsewhere: $(FOREIGN)/ready
	test -x $(ELSEWHERE)/bin/python || $(PYTHON) -m venv $(ELSEWHERE)
	$(subst $(BIN),$(ELSEWHERE)/bin,$(PIP_INSTALL)) --editable '.[dev]'
	CORES=$(CORES) LOAD=$(LOAD) tests/reliability/other_machine.sh $(ELSEWHERE)/bin/python -n $(or $(CORES),auto) $(TESTS)

# N mutated messages, N/10 mutated files, and N/1000 messages to real processes.
fuzz: N = 20000
fuzz: $(VENV)/ready
	PYTHONPATH=tests $(BIN)/python -m reliability.fuzz --messages $(N) --files $$(($(N) / 10)) --server $$(($(N) / 1000))

# Kill processes at random times and fill disks, N times each; see docs/reliability.md. Half an hour.
crashes: N = 200
crashes: $(VENV)/ready
	PYTHONPATH=tests $(BIN)/python -m reliability.crashes --times $(N)

# Simulated faults from a seed: N runs of each policy, with all checks; SOAK has more options. See docs/reliability.md.
soak soak-compiled: N = 200
soak: $(VENV)/ready
	PYTHONPATH=tests $(BIN)/python -P -m reliability.soak --runs $(N) $(SOAK)

# The same on the compiled build. (-P: do not import the modules of this directory.)
soak-compiled: compiled
	PYTHONPATH=build/compiled:tests $(BIN)/python -P -m reliability.soak --runs $(N) $(SOAK)

# One server process for N exchanges, other servers for a part of N with policies that register jobs and with a journal,
# and JOBS jobs in one embedded run. Ten million exchanges take three quarters of an hour. See docs/reliability.md.
endurance: N = 200000
endurance: JOBS = 50000
endurance: $(VENV)/ready
	PYTHONPATH=tests $(BIN)/python -m reliability.endurance --exchanges $(N) --jobs $(JOBS)

# Build the wheel, install it into an empty environment, and run it. It has the parts in C if the headers of Python are
# installed.
HAS_HEADERS := import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))
wheel:
	rm -rf build/wheel build/fresh build/lib* build/bdist*
	$(PYTHON) -m venv build/fresh
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2> /dev/null || echo 315532800) PIP_CONSTRAINT=constraints.txt \
	  build/fresh/bin/python -m pip wheel --disable-pip-version-check --no-deps --wheel-dir build/wheel . > build/wheel.log 2>&1 \
	  || { cat build/wheel.log; exit 1; }
	PIP_CONSTRAINT=constraints.txt build/fresh/bin/python -m pip install --quiet --disable-pip-version-check build/wheel/*.whl
	build/fresh/bin/python -m pip check
	cd build && fresh/bin/pybatsched --version | tee fresh.version && fresh/bin/pybatsched policies
	! $(PYTHON) -c '$(HAS_HEADERS)' || grep -q '(compiled)' build/fresh.version
	cd build && fresh/bin/pybatsched simulate -w ../examples/workload.json --policy easy -e fresh/run -q

# The wheel in an empty environment of each Python of PYTHONS that is installed: pip check and a simulation.
PYTHONS ?= python3.11 python3.12 python3.13
pythons:
	for python in $(PYTHONS); do \
	  $$python -c '' 2> /dev/null || { echo "$$python is not installed: not checked"; continue; }; \
	  $(MAKE) wheel PYTHON=$$python || exit 1; \
	done

# The tests of the packages with the oldest allowed versions of all dependencies, on the oldest Python.
OLDEST_TESTS ?= $(addprefix tests/,core policies protocol runs schedulers metrics workload experiment campaign cli report gym)
oldest: $(VENV)/ready
	mkdir -p build
	$(BIN)/python release/oldest.py > build/oldest.txt
	test -x build/oldest/bin/python || $(or $(wildcard $(shell command -v python3.11)),$(PYTHON)) -m venv build/oldest
	PIP_CONSTRAINT=build/oldest.txt build/oldest/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	build/oldest/bin/python -m pip check
	build/oldest/bin/python -m pytest -n auto -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning $(OLDEST_TESTS)

# Build sdist and wheel of the last commit twice, and keep them in dist/ if both builds are identical, with the bill of
# materials and SHA256SUMS.
archives: $(VENV)/ready
	PYTHONPATH=tests $(BIN)/python release/build.py

# Everything that can be done without a person, and the list of the rest. Hours.
release:
	git diff --quiet HEAD
	$(MAKE) test
	$(MAKE) long
	$(MAKE) test-compiled
	$(MAKE) oldest
	$(MAKE) pythons
	$(MAKE) audit
	$(MAKE) licences && git diff --exit-code docs/licences.md
	$(MAKE) docs
	$(MAKE) wheels
	$(MAKE) archives
	@$(BIN)/python release/checklist.py

# Check the pinned versions for known vulnerabilities; also fails if the check is not possible.
# Without network, ADVISORIES=DIRECTORY reads a clone of the Python Packaging Advisory Database.
audit: $(if $(ADVISORIES),$(VENV)/ready,$(AUDIT)/ready)
	$(if $(ADVISORIES),PYTHONPATH=tests $(BIN)/python release/advisories.py '$(ADVISORIES)',$(PYTHON) release/audit.py $(AUDIT)/bin/pip-audit)

# Write docs/licences.md from the metadata of all pinned packages, which are installed into build/pins.
licences: $(VENV)/ready
	rm -rf $(PINS)
	$(PIP_INSTALL) --no-deps --no-compile --target $(PINS) --requirement constraints.txt
	PYTHONPATH=tests $(BIN)/python release/bill.py --licences docs/licences.md

# Wheels of the last commit with the parts in C, in build/wheels: for x86_64 and aarch64 by cibuildwheel, if it and a
# Docker engine are available, else for each Python of PYTHONS that is installed, and for aarch64 if its compiler is.
ARM := aarch64-linux-gnu
wheels:
	rm -rf build/wheels && mkdir -p build/wheels/source && git archive HEAD | tar -x -C build/wheels/source
	if command -v cibuildwheel > /dev/null && docker info > /dev/null 2>&1; \
	then cibuildwheel --output-dir build/wheels build/wheels/source; \
	else for python in $(PYTHONS); do \
	  $$python -c '' 2> /dev/null || { echo "$$python is not installed: no wheel for it"; continue; }; \
	  $$python -m venv build/wheels/env || exit 1; \
	  wheel="env PIP_CONSTRAINT=constraints.txt build/wheels/env/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/wheels build/wheels/source"; \
	  $$wheel || exit 1; \
	  if command -v $(ARM)-gcc > /dev/null && [ "$$(uname -m)" != aarch64 ]; then rm -rf build/wheels/source/build; \
	    suffix=$$($$python -c 'import sys; print("cpython-%d%d" % sys.version_info[:2])'); \
	    CC=$(ARM)-gcc LDSHARED="$(ARM)-gcc -shared" _PYTHON_HOST_PLATFORM=linux-aarch64 SETUPTOOLS_EXT_SUFFIX=.$$suffix-$(ARM).so $$wheel || exit 1; \
	  fi; rm -rf build/wheels/env build/wheels/source/build; \
	done; fi
	rm -rf build/wheels/source && ls build/wheels

# The build with the parts in C in build/compiled, with the tools of this environment.
compiled: $(VENV)/ready
	rm -rf build/compiled && mkdir -p build/compiled
	cp -R pybatsched build/compiled/pybatsched
	cp -R schedulers/pybatsched_schedulers studies/pybatsched_studies build/compiled
	$(BIN)/python -W ignore setup.py -q build_ext --build-lib build/compiled --build-temp build/temp > build/compiled.log 2>&1 \
	  || { cat build/compiled.log; exit 1; }
	cd build && PYTHONPATH=compiled ../$(BIN)/python -m pybatsched --version | tee compiled.version
	grep -q '(compiled)' build/compiled.version

# The most important tests on that build, and the comparison of both builds.
test-compiled: compiled
	PYBATSCHED_COMPILED=build/compiled PYTHONPATH=build/compiled $(BIN)/pytest -n auto $(COMPILED_TESTS)

# Tests of the C extensions, built with GCC's address and undefined-behaviour sanitizers. A test process ends at the
# first finding. See docs/reliability.md.
ASAN_TESTS ?= tests/properties tests/policies
SANITIZE := CFLAGS='-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer'
SANITIZED = LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
  ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYBATSCHED_PATIENCE=600 PYTHONPATH=build/asan
asan: $(VENV)/ready
	rm -rf build/asan && mkdir -p build/asan
	cp -R pybatsched build/asan/pybatsched
	cp -R schedulers/pybatsched_schedulers studies/pybatsched_studies build/asan
	$(SANITIZE) $(BIN)/python -W ignore setup.py -q build_ext --build-lib build/asan --build-temp build/asan/temp
	$(SANITIZED) $(BIN)/python -P -c 'import pybatsched.policies._profile'
	$(SANITIZE) $(SANITIZED) $(BIN)/pytest -n auto $(ASAN_TESTS)

# Generate the platform files of all machines from pybatsched/machines.
platforms: $(VENV)/ready
	$(BIN)/python -m pybatsched platform generate all --output platforms

# Generate the tables of docs/api.md and docs/settings.md from the code.
api: $(VENV)/ready
	PYTHONPATH=tests $(BIN)/python -m support.api_tables

# Build the documentation site in build/site. A broken link or an undocumented public name is an error.
docs: $(DOCS)/ready
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build --strict --quiet
	@echo 'open build/site/index.html in a browser'

# Draw the pictures of the documentation in docs/images.
pictures: $(VENV)/ready
	$(BIN)/python release/pictures.py

bench: $(VENV)/ready
	$(BIN)/python benchmarks/exchanges.py
	$(BIN)/python benchmarks/simulations.py
	$(BIN)/python benchmarks/decisions.py
	$(BIN)/python benchmarks/steps.py

# Compare with other programs: those on the PATH, and those installed here. A quarter of an hour.
bench-peers: $(VENV)/ready $(FOREIGN)/ready $(ACCASIM)/ready
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/peers.py --communicating

# Count instructions per job and per exchange with valgrind, and compare with benchmarks/instructions.json.
instructions: $(VENV)/ready
	$(BIN)/python benchmarks/instructions.py

# One environment in two stages: packages for the demo, and packages for checks and tests. The second contains the first.
# Each stage is installed again when pyproject.toml or the pins have changed.
$(VENV)/demo: pyproject.toml constraints.txt
	@echo 'setting up $(VENV): pybatsched and the packages for its pages (about 25) ...'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --editable '.[report]'
	touch $@

# If both are targets, run them one after the other: parallel installations would conflict.
$(VENV)/ready: pyproject.toml constraints.txt | $(if $(filter demo,$(MAKECMDGOALS)),$(VENV)/demo)
	@echo 'setting up $(VENV): pybatsched and the packages for checks and tests (about 85) ...'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	mkdir -p build
	$(PIP_INSTALL) --editable '.[dev]'
	touch $(VENV)/demo $@

# Other programs that the tests run, in a separate environment. They are compiled at first use, which is faster.
$(FOREIGN)/ready: constraints.txt tests/foreign/requirements.txt
	test -x $(FOREIGN)/bin/python || $(PYTHON) -m venv $(FOREIGN)
	$(FOREIGN_INSTALL) --requirement tests/foreign/requirements.txt
	$(FOREIGN_INSTALL) --no-deps pybatsim batsim-py
	touch $@

# The audit tool, in a separate environment.
$(AUDIT)/ready: constraints.txt release/requirements.txt
	test -x $(AUDIT)/bin/python || $(PYTHON) -m venv $(AUDIT)
	$(subst $(BIN),$(AUDIT)/bin,$(PIP_INSTALL)) --requirement release/requirements.txt
	touch $@

# The tools of the documentation site, in a separate environment, with pybatsched: pages are generated from its code.
$(DOCS)/ready: pyproject.toml constraints.txt docs/requirements.txt
	@echo 'setting up $(DOCS): pybatsched and the packages for the documentation site ...'
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(subst $(BIN),$(DOCS)/bin,$(PIP_INSTALL)) --editable '.[notebook,rl]' --requirement docs/requirements.txt
	touch $@

# Another simulator, which only the benchmark runs.
$(ACCASIM)/ready: constraints.txt benchmarks/peers.txt
	test -x $(ACCASIM)/bin/python || $(PYTHON) -m venv $(ACCASIM)
	$(subst $(BIN),$(ACCASIM)/bin,$(PIP_INSTALL)) --requirement benchmarks/peers.txt
	touch $@

clean:
	rm -rf $(VENV) build dist out *.egg-info
