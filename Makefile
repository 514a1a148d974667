# One word for each thing one does here. Everything but clean makes sure of `make setup` first; it is cheap when done.
SHELL := /bin/bash
PY := .venv/bin/python
NATIVE := $(wildcard relay/native/*.cpp relay/native/*.hpp relay/native/*.pyx relay/native/*.pxi relay/native/*.pxd)
KEEP ?=
SCALE ?= 1

.PHONY: help setup setup-spark setup-browser demo demo-lake test test-types test-spark test-cluster test-browser test-faults test-names soak kill huge \
  fuzz opinions audit lint types fmt bench bench-lake wheel lock clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: .venv/stamp-native  ## system packages, .venv from the lock file, native build
	@echo "setup: in place (.venv/bin/relay)"

.venv/stamp-venv: requirements.lock pyproject.toml scripts/setup.sh
	@scripts/setup.sh

.venv/stamp-native: .venv/stamp-venv setup.py $(NATIVE)
	@echo "setup: building relay._native in place"
	@rm -f relay/_native*.so
	@$(PY) -m pip install --quiet --quiet --no-index --no-build-isolation --no-deps --editable .
	@touch $@

# What the Spark jobs need on top: the relay itself, `make demo` and `make test` do without.
setup-spark: .venv/stamp-spark  ## Java, and pyspark into .venv
	@echo "setup: Spark in place"

.venv/stamp-spark: .venv/stamp-native requirements-spark.lock scripts/setup-spark.sh
	@scripts/setup-spark.sh

# A browser is for the tests of the page only.
setup-browser: .venv/stamp-browser  ## chromium, fonts, and playwright into .venv
	@echo "setup: browser in place"

.venv/stamp-browser: .venv/stamp-native requirements-browser.lock scripts/setup-browser.sh
	@scripts/setup-browser.sh

demo: setup  ## the whole thing on a throwaway database server; KEEP=1 leaves it running
	@KEEP=$(KEEP) $(PY) -m examples.demo

demo-lake: setup-spark  ## the lake with Spark, from a database to a plot; KEEP=1 leaves it running
	@KEEP=$(KEEP) $(PY) -m examples.demo_lake

# Two at a time: most tests wait for a server most of the time. One alone, or with a debugger: .venv/bin/python -m pytest tests/...
test: setup  ## the suite, against three real database servers
	@$(PY) -m pytest -n 2 --dist worksteal

test-types: setup  ## every type on every server, with and without metadata, as a matrix
	@$(PY) -m tests.types

test-spark: setup-spark  ## the lake's suite with Spark, against three real database servers
	@$(PY) -m pytest -m "spark and not cluster" tests/spark

test-cluster: setup-spark wheel  ## merge, compaction and streams of the wheel on a cluster of two workers
	@$(PY) -m pytest -m cluster tests/spark/test_cluster.py

test-browser: setup-browser  ## the page in a real chromium
	@$(PY) -m pytest -n 2 --dist worksteal -m browser tests/browser

test-faults: setup  ## what breaks, under load, and a table of it; RELAY_FAULTS=0.1 for a tenth of the injections
	@$(PY) -m pytest -n 2 --dist worksteal -m faults --timeout 3000 tests/faults

soak: setup  ## an hour at a steady rate, and what each process uses of it; RELAY_SOAK=seconds
	@RELAY_SOAK=$${RELAY_SOAK:-3600} $(PY) -m pytest -m faults tests/faults/test_soak.py

test-names: setup  ## names without FULL metadata against those with it, on each server; RELAY_NAMES=seconds on each
	@RELAY_STATEMENTS=2000 $(PY) -m pytest tests/test_statement_lives.py
	@for kind in mysql97 mariadb118 mariadb1011; do $(PY) -m tests.names $$kind --seconds $${RELAY_NAMES:-3600} || failed=1; done; \
	  exit $${failed:-0}

kill: setup  ## the slow suites: kills, soaks, long random lives; RELAY_KILLS=n for each kind of kill
	@$(PY) -m pytest -n 2 --dist worksteal -m slow --timeout 3000

huge: setup  ## transactions larger than memory, binlog files beyond 4 GiB; needs 15 GB of disk and a quarter of an hour
	@$(PY) -m pytest -m huge

fuzz: setup  ## fuzz the parsers, native and Python; FUZZ_SECONDS=n per target
	@scripts/fuzz.sh
	@$(PY) -m tests.fuzz

opinions: .venv/stamp-opinions  ## the corpus of statements, as Debezium's parser and others read it; needs a JDK (docs/ddl-corpus.md)
	@$(PY) -m tests.opinions

.venv/stamp-opinions: .venv/stamp-native requirements-opinions.lock scripts/setup-opinions.sh
	@scripts/setup-opinions.sh

audit: .venv/stamp-audit  ## known vulnerabilities of what the lock files name; AUDIT_OFFLINE=allow where nobody can be asked
	@$(PY) -m tests.audit

.venv/stamp-audit: .venv/stamp-venv requirements-audit.lock scripts/setup-audit.sh
	@scripts/setup-audit.sh

bench-lake: setup-spark  ## what Spark's merge costs, as ratios
	@SCALE=$(SCALE) $(PY) -m bench.merges

bench: .venv/stamp-bench .venv/stamp-browser  ## speed as ratios, from one run, into bench/RESULTS.md; SCALE=n for longer ones
	@SCALE=$(SCALE) $(PY) -m bench

.venv/stamp-bench: .venv/stamp-native requirements-bench.lock scripts/setup-bench.sh
	@scripts/setup-bench.sh

lint: setup  ## ruff: rules and format
	@.venv/bin/ruff check . && .venv/bin/ruff format --check .

types: setup  ## mypy, strict
	@.venv/bin/mypy

fmt: setup  ## format and mend what can be mended
	@.venv/bin/ruff format . && .venv/bin/ruff check --fix .

wheel: setup  ## a wheel in dist/ that needs no compiler where it is installed
	@$(PY) -m pip wheel --quiet --quiet --no-index --no-build-isolation --no-deps --wheel-dir dist .
	@ls dist/*.whl

LOCK := .venv/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras --no-header \
  --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-options --no-emit-trusted-host

lock: setup  ## compile the lock files anew from pyproject.toml
	@$(LOCK) --extra dev --output-file requirements.lock pyproject.toml
	@$(LOCK) --extra bench --constraint requirements.lock --output-file requirements-bench.lock pyproject.toml
	@$(LOCK) --extra audit --constraint requirements.lock --output-file requirements-audit.lock pyproject.toml
	@$(LOCK) --extra opinions --constraint requirements.lock --output-file requirements-opinions.lock pyproject.toml
	@$(LOCK) --extra browser --constraint requirements.lock --output-file requirements-browser.lock pyproject.toml
	@$(LOCK) --extra spark --extra sample --constraint requirements.lock --output-file requirements-spark.lock pyproject.toml

clean:  ## remove everything that make made
	rm -rf .venv build dist *.egg-info relay/_native*.so relay/native/_native.cpp .pytest_cache .mypy_cache .ruff_cache
