# One target per task. Every target except clean and image runs `make setup` first, which is quick when done.
SHELL := /bin/bash
PY := .venv/bin/python
# Each folder of native/ is hand-written C++, but for python/: there are Cython modules, and the C++ that Cython makes of them.
CORE := $(filter-out native/python/%,$(wildcard native/*/*.cpp native/*/*.hpp))
NATIVE := $(CORE) native/values/charsets.bin $(shell find native/python -name "*.p[yx][xd]")
SLOWEST := --durations 10 --durations-min 1
KEEP ?=
ARCH ?=
SCALE ?= 1
# Without byte code each start of a relay takes three times as much of a processor, and tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-spark setup-browser demo demo-server demo-lake test test-core coverage check test-types test-spark test-cluster test-browser test-wheels test-arm test-image test-faults test-names \
  smoke-browser smoke-spark soak kill huge fuzz opinions docs audit lint types fmt bench bench-lake bench-instructions bench-compare man wheel wheels image lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: .venv/stamp-native .venv/stamp-venv  ## install system packages and .venv from the lock files, build the native module
	@echo "setup: in place (.venv/bin/relay)"

# What `make demo` needs: to build the native module and to run the relay.
.venv/stamp-run: requirements-run.lock pyproject.toml scripts/setup.sh
	@scripts/setup.sh

.venv/stamp-native: .venv/stamp-run setup.py scripts/setup-native.sh $(NATIVE)
	@scripts/setup-native.sh

# A test traces the relay's system calls.
.venv/stamp-venv: .venv/stamp-run requirements.lock
	@. scripts/common.sh; command -v strace >/dev/null || install_packages strace
	@. scripts/common.sh && install_lock requirements.lock && touch $@

# Only the Spark jobs need this: the relay itself, `make demo` and `make test` do not.
setup-spark: .venv/stamp-spark  ## install Java, and pyspark into .venv
	@echo "setup: Spark in place"

.venv/stamp-spark: .venv/stamp-native .venv/stamp-venv requirements-spark.lock scripts/setup-spark.sh
	@scripts/setup-spark.sh

# Only the tests of the page need a browser.
setup-browser: .venv/stamp-browser  ## install chromium, fonts, and playwright into .venv
	@echo "setup: browser in place"

.venv/stamp-browser: .venv/stamp-native .venv/stamp-venv requirements-browser.lock scripts/setup-browser.sh
	@scripts/setup-browser.sh

# The database server is fetched while the compiler works.
demo: .venv/stamp-run  ## run the relay on a throwaway database server; KEEP=1 leaves it running
	@$(MAKE) --no-print-directory -j 2 .venv/stamp-native demo-server
	@KEEP=$(KEEP) $(PY) -m examples.demo

demo-server:
	@$(PY) -m examples.dbserver mariadb118

demo-lake: setup-spark  ## run the lake with Spark, from a database to a plot; KEEP=1 leaves it running
	@KEEP=$(KEEP) $(PY) -m examples.demo_lake

# More processes than cores: tests wait for a server half of the time. A single test, or a debugger:
# .venv/bin/python -m pytest tests/...
test: setup  ## run the tests, with three real database servers; RELAY_SERVERS=all runs each test on all of them
	@$(PY) -m pytest -n 4 --dist worksteal $(SLOWEST)

test-core: setup  ## run the tests that need no database server
	@RELAY_TEST_SKIP=mysql97,mariadb118,mariadb1011 $(PY) -m pytest -n 2 --dist worksteal $(SLOWEST)

coverage: setup  ## run the tests, and print which lines of each module they do not reach, and the slowest tests
	@rm -rf build/coverage && mkdir -p build/coverage
	@$(PY) -m coverage run -m pytest -n 2 --dist worksteal $(SLOWEST)
	@$(PY) -m coverage combine --quiet && $(PY) -m coverage report

check: setup  ## run everything else, and print a table; PARTS="kill spark", CHECK_MINUTES=n, CHECK_SEED=n
	@$(PY) -m scripts.check $(PARTS)

test-types: setup  ## print a matrix of every type on every server, with and without metadata
	@$(PY) -m tests.types

# The newest pyspark for which there is an Iceberg; later builds of the package lack classes that it needs.
build/iceberg: .venv/stamp-spark
	@$(PY) -m pip install -q --target $@ pyspark==3.5.9 snowpark-connect-deps-iceberg==1.0.2

test-spark: setup-spark build/iceberg  ## run the lake's tests with Spark, with three real database servers; PYSPARK=4.0.5 for another pyspark
	@[ -z "$(PYSPARK)" ] || [ -d build/pyspark-$(PYSPARK) ] \
	  || $(PY) -m pip install -q --target build/pyspark-$(PYSPARK) pyspark==$(PYSPARK)
	@PYTHONPATH=$(if $(PYSPARK),$(CURDIR)/build/pyspark-$(PYSPARK)) $(PY) -m pytest -n 2 --dist loadfile -m "spark and not cluster" $(SLOWEST) tests/spark

test-cluster: setup-spark wheel  ## test merge, compaction and streams of the wheel on a cluster of two workers
	@$(PY) -m pytest -m cluster tests/spark/test_cluster.py

test-browser: setup-browser .venv/stamp-docs  ## test the page, and the site of docs/, in a real chromium
	@$(PY) -m pytest -n 2 --dist worksteal -m browser tests/browser

smoke-browser: setup-browser  ## test that the page shows the rows of a relay
	@$(PY) -m pytest -m smoke tests/browser/test_live.py

smoke-spark: setup-spark  ## test that Spark reads a table that a relay exported
	@$(PY) -m pytest -m smoke tests/spark/test_enum_keys.py

test-faults: setup  ## inject faults under load and print a table; RELAY_FAULTS=0.1 for a tenth of the injections
	@$(PY) -m pytest -n 2 --dist worksteal -m faults --timeout 3000 tests/faults

test-wheels: wheels  ## test the wheels of dist/ on x86-64 and, with qemu-user, on aarch64
	@$(PY) -m pytest -m wheels tests/wheels

test-arm: .venv/stamp-wheels man  ## test the wheel for aarch64, and the C++ tests of the core, with qemu-user
	@$(PY) -m scripts.wheels glibc-aarch64
	@$(PY) -m pytest -n 2 -m arm $(SLOWEST) tests/wheels

test-image: image .venv/stamp-deploy  ## test the container image, conf/compose.yaml and conf/kubernetes; ARCH=arm64: that image alone, with qemu-user
	@RELAY_IMAGE_ARCH=$(ARCH) $(PY) -m pytest -m image tests/image$(if $(ARCH),/test_image.py)

.venv/stamp-deploy: .venv/stamp-native requirements-deploy.lock scripts/setup-deploy.sh
	@scripts/setup-deploy.sh

soak: setup  ## run an hour at a steady rate and report what each process uses; RELAY_SOAK=seconds
	@RELAY_SOAK=$${RELAY_SOAK:-3600} $(PY) -m pytest -m faults tests/faults/test_soak.py

test-names: setup  ## compare column names without FULL metadata and with it, on each server; RELAY_NAMES=seconds on each
	@RELAY_STATEMENTS=2000 $(PY) -m pytest tests/schema/test_random_statements.py || failed=1; \
	  for kind in mysql97 mariadb118 mariadb1011; do \
	    $(PY) -m tests.names $$kind --seconds $${RELAY_NAMES:-3600} --seed $${RELAY_SEED:-0} || failed=1; \
	  done; \
	  exit $${failed:-0}

kill: setup  ## run the slow tests: kills, soaks, long random workloads; RELAY_KILLS=n for each kind of kill
	@$(PY) -m pytest -n 2 --dist worksteal -m slow --timeout 3000 $(SLOWEST)

huge: setup  ## test transactions larger than memory and binlog files beyond 4 GiB; needs 15 GB of disk and 15 minutes
	@$(PY) -m pytest -m huge

fuzz: setup  ## fuzz the native and the Python parsers; FUZZ_SECONDS=n per target
	@scripts/fuzz.sh || failed=1; $(PY) -m tests.fuzz || failed=1; exit $${failed:-0}

opinions: .venv/stamp-opinions  ## the corpus of statements, as Debezium's parser and others read it; needs a JDK (docs/internals/ddl-corpus.md)
	@$(PY) -m tests.opinions
	@$(PY) -m pytest -s -m opinions tests/opinions

.venv/stamp-opinions: .venv/stamp-native .venv/stamp-venv requirements-opinions.lock scripts/setup-opinions.sh
	@scripts/setup-opinions.sh

docs: .venv/stamp-docs  ## build the site of docs/ into build/site, with search; a broken link or a page in no group fails
	@rm -rf build/site
	@$(PY) -m sphinx --quiet --fail-on-warning --keep-going --nitpicky --conf-dir scripts/docs --doctree-dir build/doctrees . build/site
	@echo "docs: open build/site/index.html"

.venv/stamp-docs: .venv/stamp-venv requirements-docs.lock scripts/setup-docs.sh
	@scripts/setup-docs.sh

audit: .venv/stamp-audit  ## list known vulnerabilities of the locked packages; AUDIT_OFFLINE=allow without a network
	@$(PY) -m tests.project.audit

.venv/stamp-audit: .venv/stamp-venv requirements-audit.lock scripts/setup-audit.sh
	@scripts/setup-audit.sh

bench-lake: setup-spark  ## measure merges and readers of a lake as ratios, beside deltalake, DuckDB and Spark
	@SCALE=$(SCALE) $(PY) -m bench.lake_log
	@SCALE=$(SCALE) $(PY) -m bench.open_tables
	@SCALE=$(SCALE) $(PY) -m bench.open_tables_live
	@SCALE=$(SCALE) $(PY) -m bench.open_tables_export
	@SCALE=$(SCALE) $(PY) -m bench.lake_readers
	@SCALE=$(SCALE) $(PY) -m bench.merges

bench: .venv/stamp-bench .venv/stamp-browser  ## measure speed as ratios in one run, into bench/RESULTS.md; SCALE=n for longer runs
	@SCALE=$(SCALE) $(PY) -m bench

bench-instructions: .venv/stamp-instructions  ## count the instructions that a row takes in the core, and fail if they grew; RECORD=1 records them
	@$(PY) -m bench.instructions $(if $(RECORD),--record)

bench-compare: .venv/stamp-instructions  ## compare these counts with those of another commit: BASE=commit
	@$(PY) -m bench.instructions --base $(BASE)

.venv/stamp-instructions: .venv/stamp-native .venv/stamp-venv scripts/setup-instructions.sh
	@scripts/setup-instructions.sh

.venv/stamp-bench: .venv/stamp-native .venv/stamp-venv requirements-bench.lock scripts/setup-bench.sh
	@scripts/setup-bench.sh

lint: setup  ## check style: ruff, clang-format, clang-tidy, and the prose that people read
	@.venv/bin/ruff check . && .venv/bin/ruff format --check .
	@$(PY) -m tests.docs.prose
	@.venv/bin/clang-format --dry-run --Werror $(CORE)
	@printf '%s\n' $(filter %.cpp,$(CORE)) | xargs -P "$$(nproc)" -n 4 scripts/tidy.sh

types: setup  ## run mypy, strict
	@.venv/bin/mypy

fmt: setup  ## format, and fix what can be fixed
	@.venv/bin/ruff format . && .venv/bin/ruff check --fix .
	@.venv/bin/clang-format -i $(CORE)

man: setup  ## write the manual pages into man/; the wheels bring them
	@$(PY) -m scripts.man

wheel: man  ## build a wheel in dist/ that needs no compiler to install
	@$(PY) -m pip wheel --quiet --quiet --no-index --no-build-isolation --no-deps --wheel-dir dist .
	@ls dist/*.whl

wheels: .venv/stamp-wheels man  ## build in dist/ the wheels for every kind of Linux, the client's wheel, and the sdist
	@$(PY) -m scripts.wheels

.venv/stamp-wheels: .venv/stamp-native .venv/stamp-venv requirements-wheels.lock scripts/setup-wheels.sh
	@scripts/setup-wheels.sh

image:  ## build the container image binlog-relay with docker or podman; ARCH=arm64 or amd64 for another processor
	@scripts/image.sh $(ARCH)

# The oldest Python needs the most packages: compile on Debian 12.
LOCK := .venv/bin/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras --no-header \
  --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-options --no-emit-trusted-host

lock: setup  ## compile the lock files from pyproject.toml
	@$(LOCK) --extra dev --output-file requirements.lock pyproject.toml
	@$(LOCK) --build-deps-for wheel --constraint requirements.lock --output-file requirements-run.lock pyproject.toml
	@$(LOCK) --extra bench --constraint requirements.lock --output-file requirements-bench.lock pyproject.toml
	@$(LOCK) --extra wheels --constraint requirements.lock --output-file requirements-wheels.lock pyproject.toml
	@$(LOCK) --constraint requirements.lock --output-file requirements-image.lock pyproject.toml
	@$(LOCK) --extra deploy --constraint requirements.lock --output-file requirements-deploy.lock pyproject.toml
	@$(LOCK) --extra audit --constraint requirements.lock --output-file requirements-audit.lock pyproject.toml
	@$(LOCK) --extra docs --constraint requirements.lock --output-file requirements-docs.lock pyproject.toml
	@$(LOCK) --extra opinions --constraint requirements.lock --output-file requirements-opinions.lock pyproject.toml
	@$(LOCK) --extra browser --constraint requirements.lock --output-file requirements-browser.lock pyproject.toml
	@$(LOCK) --extra spark --extra sample --constraint requirements.lock --output-file requirements-spark.lock pyproject.toml

clean:  ## remove everything that make made
	rm -rf .venv build dist man *.egg-info relay/_native*.so .pytest_cache .mypy_cache .ruff_cache
	find native/python -name "*.cpp" -delete
	rm -f native/values/charsets.inc
