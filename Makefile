# `make demo`, `make check` and `make test` need only make and Python 3.10 or newer: the first run installs their
# requirements into .venv, and later runs use them again.

ifneq ($(words $(CURDIR)),1)
$(error Spark does not start from a folder with a blank in its path: move $(CURDIR))
endif

# Another Python: `make test PYTHON=/path/to/python3`.
PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3.11)
# Arguments for pytest: `make check ARGS="tests/records -k gzip"`.
ARGS ?=
# Processes that share the tests of a group.
WORKERS ?=

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# Settings of ruff, which does not read setup.cfg; pyproject.toml holds the build system only.
# RUF009 would forbid the frozen dataclass values that dataclass fields use as defaults.
RUFF_OPTIONS := --isolated --quiet --target-version py310 --line-length 110
RUFF_RULES := --select E,F,W,I,B,UP,SIM,RUF,PT,C4,PIE,RET,ARG --ignore RUF009
SOURCES := spark_kafkawire pyspark_kafkawire.py setup.py conftest.py jobs tests .ci

# Another Spark, or modules of another project, would replace those of .venv. Without byte code each of some
# hundred processes of the tests would compile all of its imports.
unexport SPARK_HOME SPARK_CONF_DIR PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Spark starts with this Java; empty means the one in PATH.
WITH_JAVA := JAVA_HOME="$$($(BIN)/python .ci/java_home.py $(VENV)/java)" && export JAVA_HOME &&
# The same for JVMs that live for seconds.
BRIEF_JAVA := $(VENV)/brief-java
WITH_BRIEF_JAVA := JAVA_HOME="$(CURDIR)/$(BRIEF_JAVA)" && export JAVA_HOME &&

PYTEST := $(BIN)/python -m pytest
IN_PARALLEL = --numprocesses $(or $(WORKERS),$(1)) --dist worksteal
# Compiles once, before all these processes compile the same code. Collecting compiles the tests; the test run
# reports its errors.
COMPILED := $(BIN)/python -m spark_kafkawire.compile_kernels
# The output of each follows when it is over.
BESIDE := $(MAKE) --no-print-directory --output-sync=target --jobs

.PHONY: help demo check test style-types-and-tests-without-jvm tests-of-check tests-without-jvm tests-with-jvm interop nightly nightly-tests nightly-brokers nightly-drawn test-cluster test-sparks chaos dist zip mutants bench docs lint style types format clean notebook diagrams

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' Makefile

demo: $(INSTALLED) ## read, count and write real Kafka 0.7 logs through Spark, then copy them to a modern broker
	@$(WITH_JAVA) $(BIN)/python jobs/demo.py

check: ## check in 80 seconds what needs no JVM: lint, types, import contracts, the tests of most rooms
	@$(BESIDE) style types tests-of-check

test: $(BRIEF_JAVA)/.made ## check all but what takes minutes: the same, Spark, the jobs, README, the wheel
	@$(COMPILED)
	@$(MAKE) --no-print-directory --jobs=2 tests-with-jvm style-types-and-tests-without-jvm

# The longer tests beside them show their output meanwhile.
style-types-and-tests-without-jvm:
	@$(BESIDE) style types tests-without-jvm

tests-of-check: $(INSTALLED)
	@$(COMPILED)
	@$(PYTEST) $(call IN_PARALLEL,4) -p tests.support.no_spark -m "not jvm and not slow" $(ARGS)

tests-without-jvm: $(INSTALLED)
	@$(PYTEST) $(call IN_PARALLEL,2) -p tests.support.no_spark -m "not jvm and not nightly" $(ARGS)

# They wait for JVMs, brokers and killed processes more than they work.
tests-with-jvm: $(BRIEF_JAVA)/.made
	@$(WITH_BRIEF_JAVA) $(PYTEST) $(call IN_PARALLEL,4) -m "jvm and not nightly" $(ARGS)

interop: $(BRIEF_JAVA)/.made $(VENV)/.interop ## run the tests against Apache Kafka 0.10.2, 2.8 and 4.4, a schema registry and HDFS, which Maven gets the first time
	@$(WITH_BRIEF_JAVA) $(PYTEST) tests/interop --numprocesses $(or $(WORKERS),2) --dist loadfile -m "not nightly" $(ARGS)

nightly: $(BRIEF_JAVA)/.made $(VENV)/.interop ## run what takes longer than a commit may: kills, all brokers, all Sparks, a cluster, chaos, many drawn inputs
	@$(COMPILED)
	@$(BESIDE)=2 --keep-going nightly-tests nightly-brokers nightly-drawn chaos test-cluster test-sparks

# Fifty kills take longer than a test of the other runs may; each test has a timeout of its own.
LONG := -o faulthandler_timeout=0

nightly-tests: $(BRIEF_JAVA)/.made
	@$(WITH_BRIEF_JAVA) $(PYTEST) $(call IN_PARALLEL,2) $(LONG) -m nightly $(ARGS)

nightly-brokers: $(BRIEF_JAVA)/.made $(VENV)/.interop
	@$(WITH_BRIEF_JAVA) $(PYTEST) tests/interop $(LONG) -m nightly $(ARGS)

nightly-drawn: $(INSTALLED)
	@EXAMPLES=300 $(PYTEST) -p tests.support.no_spark -m "hypothesis and not jvm and not nightly" $(ARGS)

test-cluster: $(BRIEF_JAVA)/.made ## run jobs on a standalone Spark cluster of two workers, and kill one
	@$(WITH_BRIEF_JAVA) $(PYTEST) tests/on_cluster $(ARGS)

test-sparks: $(INSTALLED) ## run the tests of Spark with the lowest versions, with Spark 4.0 to 4.2, all with each Python, and platforms: ARGS="--only 4.0.5 --short"
	@$(WITH_JAVA) $(BIN)/python .ci/sparks.py $(VENV)/sparks --workers $(or $(WORKERS),4) $(ARGS)

chaos: $(INSTALLED) ## break connections at random between reads, writes and real brokers: ARGS="--minutes 10 --seed 1"
	@$(WITH_JAVA) $(PYTEST) tests/chaos/test_address_map.py tests/chaos/test_rebootstrap.py
	@$(WITH_JAVA) $(BIN)/python -m tests.chaos $(ARGS)

dist: $(VENV)/dist-tools/.installed ## build wheel, sdist and conda recipe into dist, check them, and read with the wheel in an empty environment
	@$(WITH_JAVA) $(VENV)/dist-tools/bin/python .ci/dist.py dist

zip: ## build dist/spark_kafkawire.zip, which spark-submit --py-files ships
	@$(PYTHON) .ci/zip_package.py dist/spark_kafkawire.zip

notebook: $(INSTALLED) ## make docs/quickstart.ipynb from its page
	@$(BIN)/python .ci/notebook.py docs/quickstart.md docs/quickstart.ipynb

mutants: $(BRIEF_JAVA)/.made $(VENV)/.mutants ## change the package at random places, and count what the tests notice: ARGS="--seed 1 --count 200"
	@$(WITH_BRIEF_JAVA) $(BIN)/python -m tests.mutants $(ARGS)

bench: $(INSTALLED) $(if $(findstring --draw,$(ARGS)),$(VENV)/.drawing) ## measure against ceilings and other clients: ARGS="--only read stream --rounds 3", ARGS=--help
	@$(WITH_JAVA) $(BIN)/python -m tests.benchmarks $(ARGS)

diagrams: ## draw the texts of docs/diagrams: docs/images/*.svg
	@$(PYTHON) .ci/diagrams.py docs/diagrams docs/images

# The theme's own announcements are not warnings of this build.
docs: $(VENV)/.docs ## build the documentation as a site: build/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict -f .ci/mkdocs.yml

lint: style types ## check style, types and import contracts

style: $(INSTALLED) ## check the format of the code, and the words, links and tables of sources and pages
	$(BIN)/ruff check $(RUFF_OPTIONS) $(RUFF_RULES) $(SOURCES)
	$(BIN)/ruff format --check $(RUFF_OPTIONS) $(SOURCES)
	@$(BIN)/python .ci/sizes.py spark_kafkawire jobs
	@$(PYTEST) tests/lint -qq --numprocesses 0

# import-linter's cache does not see a module that was missing when an import of it was first read.
# numpy's types are those of Python 3.12 wherever pip installs numpy 2.5.
types: $(INSTALLED)
	$(BIN)/mypy --config-file setup.cfg \
		--python-version $$($(BIN)/python -c 'import sys; print("3.12" if sys.version_info >= (3, 12) else "3.10")')
	$(BIN)/lint-imports --no-logo --no-cache --config setup.cfg

format: $(INSTALLED) ## rewrite the code in the one format, imports sorted
	$(BIN)/ruff check --fix $(RUFF_OPTIONS) --select I $(SOURCES)
	$(BIN)/ruff format $(RUFF_OPTIONS) $(SOURCES)

clean: ## remove .venv and everything else that these commands made
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The package is installed as a plain path to this folder (`compat`): Spark looks for sources in the
# folders of sys.path, which the other kinds of editable installation do not extend.
$(INSTALLED): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "Python 3.10 or newer is needed: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Installing what is needed into $(VENV), about a minute ..." >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --editable '.[spark,test]' --config-settings editable_mode=compat \
		> $(VENV)/pip.log 2>&1 || { cat $(VENV)/pip.log >&2; exit 1; }
	@touch $@

$(BRIEF_JAVA)/.made: $(INSTALLED) .ci/short_lived_java.py
	@echo "Keeping Spark's classes for the tests' JVMs in $(BRIEF_JAVA) (once) ..." >&2
	@$(WITH_JAVA) $(BIN)/python .ci/short_lived_java.py $(BRIEF_JAVA) \
		> $(VENV)/brief-java.log 2>&1 || { cat $(VENV)/brief-java.log >&2; exit 1; }
	@touch $@

# A separate environment: twine alone brings thirty packages, and no test may depend on one of them.
$(VENV)/dist-tools/.installed: $(INSTALLED)
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet 'build>=1.6,<2' 'twine>=7,<8' 'py-rattler-build>=0.73,<0.74'
	@touch $@

$(VENV)/.docs: $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --editable '.[spark,test,docs]' --config-settings editable_mode=compat
	@touch $@

$(VENV)/.interop: $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --editable '.[spark,test,interop]' --config-settings editable_mode=compat
	@touch $@

$(VENV)/.mutants: $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --editable '.[spark,test,mutants]' --config-settings editable_mode=compat
	@touch $@

$(VENV)/.drawing: $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --editable '.[spark,test,bench]' --config-settings editable_mode=compat
	@touch $@
