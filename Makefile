# Every target makes its own .venv from a bare python3 (3.11 or newer) with pip; uv is used when it is on the path.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
PIP := $(if $(UV),$(UV) pip install --quiet --python $(PY),$(PY) -m pip install --quiet --disable-pip-version-check)
PYTEST := $(PY) -m pytest -n auto --maxprocesses 8 --dist worksteal
REPORT ?= evenstep-report.html
DEMO_REPORT ?= evenstep-demo.html
ENGINES := .venv-engines
ENGINES_PY := $(ENGINES)/bin/python
ENGINES_PIP := $(if $(UV),$(UV) pip install --quiet --python $(ENGINES_PY),$(ENGINES_PY) -m pip install --quiet --disable-pip-version-check)
# Builds of torch without CUDA, where the usual index has none.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

# Bytecode is kept, whatever the surroundings say: without it each run, and each process that a test starts, compiles
# everything anew, a tenth of the time of `make test`.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo demo-sim test test-all test-full test-engines test-leaderboard mutants engines check bench soak docs pictures leaderboard papers reference lock clean

help:
	@echo "make demo      install, then live: emulated engines, the gateway, a real trace, two policies; a minute, and a report"
	@echo "make demo-sim  the same trace in the simulator: seven policies, three replicates each, and a report"
	@echo "make test      the fast tests; the first run compiles kernels for a minute"
	@echo "make test-all  every test, from the lock file; a skipped test fails; then a tenth of the leaderboard again"
	@echo "make engines   real vLLM and NIXL on the processor, from the lock file, into $(ENGINES); make test-all does it too"
	@echo "make check     lint, format, types, imports, spelling, docs, file sizes"
	@echo "make mutants  change a module one operator at a time, and see whether its tests notice: make mutants MODULE=routing/policies/jsq"
	@echo "make bench     the speed ratios of benchmarks/"
	@echo "make soak      nightly: 100,000 requests through the gateway, faults and leaving clients; memory and a replayed log"
	@echo "make docs      the documentation, into build/site"
	@echo "make leaderboard  rank every policy on every workload anew: page, data and picture; five to ten minutes on two cores"
	@echo "make pictures  redraw the pictures of README and docs"
	@echo "make reference rewrite the reference of commands and the JSON Schemas"
	@echo "make lock      rewrite requirements/dev.lock (needs uv)"

$(PY):
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"evenstep needs Python 3.11 or newer; $(PYTHON) is {v[0]}.{v[1]}. Run: make PYTHON=python3.12 ...")'
	$(if $(UV),$(UV) venv --quiet --python $(PYTHON) $(VENV),$(PYTHON) -m venv $(VENV))

# What each tier needs, once per change of pyproject.toml or of the lock file.
$(VENV)/.run: pyproject.toml | $(PY)
	@echo "installing evenstep into $(VENV)"
	$(PIP) -e .
	@touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.run
	@$(PY) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["test"], sep="\n")' > $(VENV)/test.txt
	$(PIP) -r $(VENV)/test.txt
	@touch $@

$(VENV)/.dev: pyproject.toml requirements/dev.lock | $(PY)
	@echo "installing the locked tools into $(VENV)"
	$(PIP) -r requirements/dev.lock
	$(PIP) --no-deps -e .
	@touch $(VENV)/.run $(VENV)/.live $(VENV)/.test $@

$(ENGINES)/.locked: requirements/engines.lock
	@echo "installing the locked engines into $(ENGINES)"
	$(if $(UV),$(UV) venv --quiet --clear --python $(PYTHON) $(ENGINES),$(PYTHON) -m venv --clear $(ENGINES))
	$(ENGINES_PIP) --no-deps torch==2.13.0+cpu || $(ENGINES_PIP) --no-deps --index-url $(TORCH_INDEX) torch==2.13.0+cpu
	$(ENGINES_PIP) --no-deps -r requirements/engines.lock
	@touch $@

$(ENGINES)/.done: pyproject.toml $(ENGINES)/.locked
	$(ENGINES_PIP) --no-deps -e .
	@touch $@

engines: $(ENGINES)/.done

$(VENV)/.live: pyproject.toml $(VENV)/.run
	$(PIP) -e '.[gateway]'
	@touch $@

demo: $(VENV)/.live
	@$(BIN)/evenstep demo --report $(DEMO_REPORT)

demo-sim: $(VENV)/.run
	@$(BIN)/evenstep compare sample:azure-conv --report $(REPORT)

test: $(VENV)/.test
	$(PY) .ci/warm.py
	$(PYTEST) -m "not slow and not engine and not browser"

test-all:
	@$(MAKE) --no-print-directory test-full
	@$(MAKE) --no-print-directory test-engines
	@$(MAKE) --no-print-directory test-leaderboard

test-full: $(VENV)/.dev
	$(PY) .ci/warm.py
	$(PYTEST) -ra --no-skips --modules-run --hypothesis-profile full --durations 10 --ignore tests/engine_tier

test-engines: $(VENV)/.dev $(ENGINES)/.done
	$(PY) -m pytest tests/engine_tier -ra --no-skips --durations 10

test-leaderboard: $(VENV)/.dev
	$(BIN)/evenstep leaderboard examples/leaderboard.yaml --check docs/reference/leaderboard.parquet

mutants: $(VENV)/.test
	$(PY) -m tests.mutants $(MODULE)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/typos
	$(PY) .ci/files.py
	$(PY) -m pytest -q tests/test_docs.py -k generated_pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir build/site

bench: $(VENV)/.test $(ENGINES)/.done
	@for file in benchmarks/bench_*.py; do $(PY) $$file || exit 1; done

soak: $(VENV)/.test
	$(PY) benchmarks/soak_gateway.py --requests 100000 --least-decisions 10000

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir build/site
	@echo "build/site/index.html"

pictures: $(VENV)/.live
	$(PY) docs/make_pictures.py

leaderboard: $(VENV)/.run
	$(BIN)/evenstep leaderboard examples/leaderboard.yaml --cache build/leaderboard.cache \
	  --out docs/reference/leaderboard.md --picture docs/images/leaderboard.svg

papers: $(VENV)/.run  # the record from which docs/reference/papers.md takes its verdicts: all at full size, or ONLY=bfio-fig1
ifdef ONLY
	@mkdir -p build
	$(BIN)/evenstep reproduce $(ONLY) --format json > build/claims.json
	$(PY) docs/record_claims.py < build/claims.json
else
	$(BIN)/evenstep reproduce all
	cp reproduced/papers.json src/evenstep/experiments/papers/recorded.json
endif
	$(PY) docs/make_reference.py

reference: $(VENV)/.run
	$(PY) docs/make_reference.py

lock:
	$(if $(UV),,$(error make lock needs uv on the path))
	$(UV) pip compile --quiet --universal --python-version 3.11 pyproject.toml --extra all --group dev \
	  --no-annotate --custom-compile-command "make lock" --upgrade -o requirements/dev.lock

clean:
	rm -rf $(VENV) $(ENGINES) build site .pytest_cache .ruff_cache .hypothesis .import_linter_cache
