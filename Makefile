# Set-up and the usual jobs. `make demo` and `make test` need nothing but Python (3.11 or newer), make and a C compiler.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FOREIGN := build/foreign
COMPILED_TESTS ?= tests/conformance tests/properties tests/gym/test_choices.py tests/test_two_builds.py
ACCASIM := build/accasim
# Everything that is installed is pinned, what builds our own packages included.
PIP_INSTALL := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check
AUDIT := build/audit
PINS := build/pins
FOREIGN_INSTALL := $(subst $(BIN),$(FOREIGN)/bin,$(PIP_INSTALL)) --no-compile

.PHONY: demo test lint types unit long batsim docker docker-images docker-checks wheel platforms api bench bench-peers instructions \
  fast compiled test-compiled tests-of-compiled asan elsewhere fuzz crashes endurance release audit licences soak soak-compiled clean

demo: $(VENV)/demo
	$(BIN)/python examples/demo.py

# What keeps one core busy at a time is done side by side; the tests keep all of them busy.
test: $(VENV)/ready
	$(MAKE) --jobs=2 --output-sync=target lint types wheel $(FOREIGN)/ready
	$(MAKE) unit

lint: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/ready
	$(BIN)/mypy -p pybatsched -p pybatsched_schedulers
	$(BIN)/mypy tests benchmarks examples release

# Of the examples that hypothesis tries, half: make long tries all of them.
unit: $(VENV)/ready $(FOREIGN)/ready
	PYBATSCHED_EXAMPLES=$${PYBATSCHED_EXAMPLES:-0.5} $(BIN)/python -m pytest -n auto

# Beside a real Batsim, where one is on the PATH: batsim (4.2.1) and batsim5 (5.0.0-rc2).
batsim: $(VENV)/ready
	$(BIN)/python -m pytest -n auto -m 'batsim or batsim5'

# The images, built and run by Docker Compose, where an engine answers: with the stand-in for Batsim, and with the image
# BATSIM_IMAGE where there is one on this machine.
docker:
	@if docker info > /dev/null 2>&1 && docker compose version > /dev/null 2>&1; \
	then $(MAKE) docker-checks; \
	else echo 'make docker: skipped, no Docker engine with its compose plug-in answers'; fi

docker-images: $(VENV)/ready
	PYTHON=$(BIN)/python docker/images.sh

docker-checks: docker-images
	$(BIN)/python -m pytest -m docker tests/test_docker.py tests/test_compose.py

# Whole logs and the like, a minute each, that make test leaves out, and all examples of the properties.
PROPERTIES := tests/properties tests/policies tests/schedulers/test_kept_plans.py tests/session/test_both_batsims.py
long: $(VENV)/ready
	$(BIN)/python -m pytest -n auto -m long
	$(BIN)/python -m pytest -n auto $(PROPERTIES)

# All tests as if on another machine (no network, a read-only home, another locale, time zone and umask), by the Python
# that is told: make elsewhere PYTHON=python3.13 CORES=1 LOAD=10 TESTS=tests/live. Needs root, or user namespaces.
ELSEWHERE = build/elsewhere/$(notdir $(PYTHON))
elsewhere: $(FOREIGN)/ready
	test -x $(ELSEWHERE)/bin/python || $(PYTHON) -m venv $(ELSEWHERE)
	$(subst $(BIN),$(ELSEWHERE)/bin,$(PIP_INSTALL)) --editable '.[dev]'
	PYTHONPATH=tests $(ELSEWHERE)/bin/python -m reliability.elsewhere $(CORES:%=--cores %) $(LOAD:%=--load %) \
	  -- -n $(or $(CORES),auto) $(TESTS)

# So many mutated messages, and a tenth as many mutated files; a thousandth of the messages goes to real processes.
fuzz: N = 20000
fuzz: $(VENV)/ready
	PYTHONPATH=tests $(BIN)/python -m reliability.fuzz --messages $(N) --files $$(($(N) / 10)) --server $$(($(N) / 1000))

# Processes are killed at random moments and disks are full, N times each; see docs/reliability.md. A quarter of an hour.
crashes: N = 200
crashes: $(VENV)/ready
	PYTHONPATH=tests $(BIN)/python -m reliability.crashes --times $(N)

# Simulated faults from a seed: N runs of each policy, with all checks; SOAK has more options. See docs/reliability.md.
soak soak-compiled: N = 200
soak: $(VENV)/ready
	PYTHONPATH=tests $(BIN)/python -P -m reliability.soak --runs $(N) $(SOAK)

# The same on the compiled build. (-P: or the modules of this directory would be taken for it.)
soak-compiled: compiled
	PYTHONPATH=build/compiled:tests $(BIN)/python -P -m reliability.soak --runs $(N) $(SOAK)

# One server process for N exchanges, others for shares of that with policies that register jobs and with a journal, and
# JOBS jobs in one embedded run; ten million exchanges take three quarters of an hour. See docs/reliability.md.
endurance: N = 200000
endurance: JOBS = 50000
endurance: $(VENV)/ready
	PYTHONPATH=tests $(BIN)/python -m reliability.endurance --exchanges $(N) --jobs $(JOBS)

# The wheel is built, installed where nothing else is, and asked who it is.
wheel: $(VENV)/ready
	rm -rf build/wheel build/fresh
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2> /dev/null || echo 315532800) \
	  PIP_CONSTRAINT=constraints.txt $(BIN)/python -m build --wheel --outdir build/wheel . > build/wheel.log 2>&1 \
	  || { cat build/wheel.log; exit 1; }
	$(PYTHON) -m venv build/fresh
	PIP_CONSTRAINT=constraints.txt build/fresh/bin/python -m pip install --quiet --disable-pip-version-check build/wheel/*.whl
	cd build && fresh/bin/pybatsched --version && fresh/bin/pybatsched policies

# sdist and wheel of the last commit into dist/, built twice and kept if both have the same bytes, with the bill of
# materials and SHA256SUMS.
release: $(VENV)/ready
	PYTHONPATH=tests $(BIN)/python release/build.py

# What is known against the versions that are pinned; fails if that cannot be found out as well.
# Without a way to a service, ADVISORIES=DIRECTORY takes them from a clone of the Python Packaging Advisory Database.
audit: $(if $(ADVISORIES),$(VENV)/ready,$(AUDIT)/ready)
	$(if $(ADVISORIES),PYTHONPATH=tests $(BIN)/python release/advisories.py '$(ADVISORIES)',$(PYTHON) release/audit.py $(AUDIT)/bin/pip-audit)

# docs/licences.md from what all pinned packages say of themselves; those of others' programs are put into build/pins.
licences: $(VENV)/ready
	rm -rf $(PINS)
	$(PIP_INSTALL) --no-deps --no-compile --target $(PINS) --requirement constraints.txt
	PYTHONPATH=tests $(BIN)/python release/bill.py --licences docs/licences.md

# The compiled build, beside the usual one: in an empty environment, as users install it.
fast: pyproject.toml
	rm -rf build/fast && $(PYTHON) -m venv build/fast
	PYBATSCHED_COMPILE=1 $(subst $(BIN),build/fast/bin,$(PIP_INSTALL)) '.[report]'
	cd build && fast/bin/pybatsched --version | tee fast.version
	grep -q '(compiled)' build/fast.version

# The same into build/compiled, by this environment's own tools: to be tested beside the plain modules.
compiled: $(VENV)/ready
	rm -rf build/compiled && mkdir -p build/compiled
	cp -R pybatsched build/compiled/pybatsched
	cp -R schedulers/pybatsched_schedulers build/compiled/pybatsched_schedulers
	PYBATSCHED_COMPILE=1 PYBATSCHED_OPTIMISE=0 $(BIN)/python -W ignore setup.py -q build_ext \
	  --build-lib build/compiled --build-temp build/temp > build/compiled.log 2>&1 || { cat build/compiled.log; exit 1; }
	cd build && PYTHONPATH=compiled ../$(BIN)/python -m pybatsched --version | tee compiled.version
	grep -q '(compiled)' build/compiled.version

# What promises and exactness rest on, on the compiled build, and that both builds schedule the same. The second target
# takes the build that is there.
test-compiled: compiled
	$(MAKE) tests-of-compiled

tests-of-compiled: $(VENV)/ready
	PYBATSCHED_COMPILED=build/compiled PYTHONPATH=build/compiled $(BIN)/pytest -n auto $(COMPILED_TESTS)

# The C parts, built with GCC's address and undefined-behaviour sanitizers, beside their plain twins and under the
# properties of whole schedules. A test process ends at its first finding. See docs/reliability.md.
ASAN_TESTS ?= tests/properties tests/policies tests/core/test_compiled_runs.py tests/core/test_six_decimals.py
SANITIZE := CFLAGS='-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer'
SANITIZED = LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
  ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYBATSCHED_PATIENCE=600 PYTHONPATH=build/asan
asan: $(VENV)/ready
	rm -rf build/asan && mkdir -p build/asan
	cp -R pybatsched build/asan/pybatsched
	cp -R schedulers/pybatsched_schedulers build/asan/pybatsched_schedulers
	$(SANITIZE) PYBATSCHED_COMPILE=c $(BIN)/python -W ignore setup.py -q build_ext --build-lib build/asan --build-temp build/asan/temp
	$(SANITIZED) $(BIN)/python -P -c 'import pybatsched.core._runs, pybatsched.core._fixed6, pybatsched.policies._profile'
	$(SANITIZE) $(SANITIZED) $(BIN)/pytest -n auto $(ASAN_TESTS)

# The platform files of all machines, written anew from pybatsched/machines.
platforms: $(VENV)/ready
	$(BIN)/python -m pybatsched platform generate all --output platforms

# The tables of docs/api.md, written anew from the code.
api: $(VENV)/ready
	PYTHONPATH=tests $(BIN)/python -m support.api_tables

bench: $(VENV)/ready
	$(BIN)/python benchmarks/exchanges.py
	$(BIN)/python benchmarks/simulations.py
	$(BIN)/python benchmarks/decisions.py
	$(BIN)/python benchmarks/steps.py

# Beside programs of others: those that are on the PATH, and those that are installed here. A quarter of an hour.
bench-peers: $(VENV)/ready $(FOREIGN)/ready $(ACCASIM)/ready
	$(BIN)/python benchmarks/peers.py

# Instructions per job and per exchange under valgrind, beside those kept in benchmarks/instructions.json.
instructions: $(VENV)/ready
	$(BIN)/python benchmarks/instructions.py

# One environment in two stages: what the demo needs, and all that checks and tests need. The second contains the first.
# Each is installed anew whenever the project's own description or the pins have changed.
$(VENV)/demo: pyproject.toml constraints.txt
	@echo 'setting up $(VENV): pybatsched and what its pages need (about 25 packages) ...'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --editable '.[report]'
	touch $@

# Where both are asked for, one after the other: two installations at once would spoil each other.
$(VENV)/ready: pyproject.toml constraints.txt | $(if $(filter demo,$(MAKECMDGOALS)),$(VENV)/demo)
	@echo 'setting up $(VENV): pybatsched and what its checks and tests need (about 85 packages) ...'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	mkdir -p build
	$(PIP_INSTALL) --editable '.[dev]'
	touch $(VENV)/demo $@

# Programs of others that the tests run against ours, away from our own environment. Compiled when used: it is faster.
$(FOREIGN)/ready: constraints.txt tests/foreign/requirements.txt
	test -x $(FOREIGN)/bin/python || $(PYTHON) -m venv $(FOREIGN)
	$(FOREIGN_INSTALL) --requirement tests/foreign/requirements.txt
	$(FOREIGN_INSTALL) --no-deps pybatsim batsim-py
	touch $@

# What looks for known vulnerabilities, away from what it looks at.
$(AUDIT)/ready: constraints.txt release/requirements.txt
	test -x $(AUDIT)/bin/python || $(PYTHON) -m venv $(AUDIT)
	$(subst $(BIN),$(AUDIT)/bin,$(PIP_INSTALL)) --requirement release/requirements.txt
	touch $@

# A simulator of others, which only the benchmark runs.
$(ACCASIM)/ready: constraints.txt benchmarks/peers.txt
	test -x $(ACCASIM)/bin/python || $(PYTHON) -m venv $(ACCASIM)
	$(subst $(BIN),$(ACCASIM)/bin,$(PIP_INSTALL)) --requirement benchmarks/peers.txt
	touch $@

clean:
	rm -rf $(VENV) build dist out *.egg-info
