# One command each; every target sets up what it needs, and a second run installs nothing.

VENV := .venv
READY := $(VENV)/.ready
LOCK := requirements/dev.txt
CODE := $(wildcard src tests bench fuzz tools examples)
# For the Java client in tests and demo, and ActiveMQ itself to compare with.
DEBIAN_DEMO := jdk libactivemq-java
# The databases that the SQL store is tested on, and their JDBC drivers, for ActiveMQ on the same tables.
DEBIAN_DATABASES := postgresql mariadb-server-core mariadb-client-core libpostgresql-jdbc-java libmariadb-java libjaxb-api-java
DEBIAN_TEST := $(DEBIAN_DEMO) activemq chromium zookeeper iproute2 nftables $(DEBIAN_DATABASES)
# The package as pip installs it, hot modules compiled, apart from the tree that is edited.
COMPILED := build/compiled
ON_COMPILED := PYTHONPATH=$(CURDIR)/$(COMPILED)
# Spark's classes as Java has them in memory: halves the start of each Spark.
SPARK_CLASSES := build/spark-classes.jsa
# What runs on the plain sources, too: mypyc has broken modules that work as plain Python, and the other way round. Of
# these the compiled pass leaves out what is the same there: tests of modules that are not compiled
# (tests/unit/conftest.py, tests/contract/conftest.py).
TESTS_TWICE := tests/unit tests/contract tests/vectors $(wildcard tests/model/test_*_agrees_with_plain.py)
# What runs on the plain sources only: the fuzzer sees the branches of Python, and none of compiled modules.
TESTS_PLAIN := tests/fuzz
# What starts Spark, one test at a time.
TESTS_SPARK := tests/spark tests/spark_audit tests/pipeline
# What measures, alone on the machine.
TESTS_LOAD := tests/load
PYTEST := $(VENV)/bin/pytest --dist worksteal
# RabbitMQ too, but only to compare with.
DEBIAN_BENCH := $(DEBIAN_DEMO) activemq rabbitmq-server librabbitmq-client-java postgresql libpostgresql-jdbc-java libjaxb-api-java

# The demo's store. (STORE of the simulation has a default of its own.)
DEMO_STORE = $(if $(filter command line environment,$(origin STORE)),$(STORE),journal)

# Compiled tests are kept, so that the second run starts at once, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo run wheel test test-plain test-compiled test-spark test-fast simulate simulate-groups fuzz-restarts crash ha database-kills restarts pipeline check sync_copy bench bench-quick clean lock
.DELETE_ON_ERROR:

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: $(READY) ## the broker and real clients at work; EXIT=1 ends by itself, STORE=postgresql takes a temporary server, CLUSTER=3 a group
	@tools/debian_packages.sh $(DEBIAN_DEMO) $(if $(CLUSTER),zookeeper) $(if $(findstring postgresql,$(DEMO_STORE)),postgresql) \
		$(if $(findstring mariadb,$(DEMO_STORE)),mariadb-server-core mariadb-client-core)
	@$(VENV)/bin/python -m examples.demo $(if $(CLUSTER),--cluster $(CLUSTER),--store $(DEMO_STORE)) $(if $(EXIT),--exit)

run: $(READY) ## a broker on this machine; ARGS="--listen URI" and more are passed on
	@$(VENV)/bin/ackwire serve $(ARGS)

wheel: $(READY) ## dist/: a wheel of pure Python for clients, and one with compiled modules for brokers on this platform
	@tools/wheels.sh $(VENV) dist

# Everything runs on the compiled package, as users have it, and part of it as plain Python too. The plain pass runs
# beside the compiler, and Spark beside the other tests, which mostly wait; each pass is printed when it has ended. Tests
# of load measure, so they come last and alone. Each pass is given its folders: a process that collects every test
# takes five seconds for that. With ARGS, pytest runs once, with those, on the plain sources.
test: $(READY) ## every test; ARGS="tests/unit -k name" for some, WORKERS=0 for one process
	@tools/debian_packages.sh $(DEBIAN_TEST)
ifdef ARGS
	$(PYTEST) -n $(or $(WORKERS),auto) $(ARGS)
else
	@$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync test-plain test-compiled test-spark
	$(ON_COMPILED) $(PYTEST) -n 0 $(TESTS_LOAD)
endif

test-plain: $(READY)
	$(PYTEST) -n $(or $(WORKERS),2) $(TESTS_TWICE) $(TESTS_PLAIN)

test-compiled: $(COMPILED)/.ready
	@$(ON_COMPILED) $(PYTEST) -n 0 --collect-only -q >/dev/null # compiles the tests, so that not every worker does
	$(ON_COMPILED) $(PYTEST) -n $(or $(WORKERS),4) $(addprefix --ignore=,$(TESTS_PLAIN) $(TESTS_SPARK) $(TESTS_LOAD))

test-spark: $(COMPILED)/.ready $(SPARK_CLASSES)
	$(ON_COMPILED) $(PYTEST) -n 0 $(TESTS_SPARK)

test-fast: $(READY) ## what finds most mistakes in a minute: modules on their own, golden frames, every store
	$(PYTEST) -n $(or $(WORKERS),auto) tests/unit tests/vectors tests/contract

SEEDS ?= 1-1000
STEPS ?= 400
STORE ?= any
fuzz-restarts: $(READY) ## clients that do anything legal, with restarts, on a journal; COMMANDS=100000 STARTS=500 SEED=1
	@$(VENV)/bin/python tools/stateful_fuzz.py --commands $(or $(COMMANDS),100000) --restarts $(or $(STARTS),500) --seed $(or $(SEED),1)

simulate: $(READY) ## the simulation; SEEDS=1-1000 STORE=journal JOBS=2, or SEEDS=4711 VERBOSE=1 for the history of one
	@$(VENV)/bin/python tools/simulate.py --seeds $(SEEDS) --store $(STORE) --steps $(STEPS) --jobs $(or $(JOBS),1) $(if $(VERBOSE),--verbose)

simulate-groups: $(READY) ## replicated groups under every fault; SEEDS=1-2000 LOG=journal JOBS=2, or SEEDS=4711 VERBOSE=1
	@$(VENV)/bin/python tools/simulate_groups.py --seeds $(SEEDS) --log $(or $(LOG),journal) --jobs $(or $(JOBS),1) \
		$(if $(filter command line environment,$(origin STEPS)),--steps $(STEPS)) $(if $(VERBOSE),--verbose)

SEED ?= 1
crash: $(READY) ## kill -9 under load from the real Java client, and nothing promised is lost; KILLS=200 SEED=1
	@tools/debian_packages.sh $(DEBIAN_TEST)
	@$(VENV)/bin/python tools/crash.py --kills $(or $(KILLS),200) --seed $(SEED) $(ARGS)

database-kills: $(READY) ## kill -9 of the database server under load from the real Java client; STORE=postgresql KILLS=20 SEED=1
	@tools/debian_packages.sh $(DEBIAN_TEST)
	@$(VENV)/bin/python tools/database_kills.py --store $(if $(filter mariadb,$(STORE)),mariadb,postgresql) --kills $(or $(KILLS),20) --seed $(SEED) $(ARGS)

# In network namespaces, with rules of nftables for cuts: needs root.
ha: $(READY) ## real faults on a replicated group under load: kills, pauses, partitions, full disks; FAULTS=100 SEED=1
	@tools/debian_packages.sh $(DEBIAN_TEST)
	@$(VENV)/bin/python tools/ha.py --faults $(or $(FAULTS),100) --seed $(SEED) $(ARGS)

RESTARTS ?= 100
restarts: $(READY) ## restarts under the Python client with failover:, and nothing is lost; RESTARTS=100 SEED=1
	@$(VENV)/bin/python tools/restarts.py --restarts $(RESTARTS) --seed $(SEED) $(ARGS)

pipeline: KILLS = 20
pipeline: $(READY) ## kill -9 of Spark and the broker between two queues, and each message comes once; KILLS=20 SEED=1
	@$(VENV)/bin/python tools/pipeline_kills.py --kills $(KILLS) --seed $(SEED) $(ARGS)

check: $(READY) ## lint, format, types, import directions, forbidden calls, references
	$(VENV)/bin/ruff check $(CODE)
	$(VENV)/bin/ruff format --check $(CODE)
	$(VENV)/bin/mypy $(CODE)
	$(VENV)/bin/lint-imports --no-logo
	$(VENV)/bin/python tools/check_forbidden.py
	$(VENV)/bin/python tools/semantics_table.py --check
	$(VENV)/bin/python tools/check_references.py
	$(VENV)/bin/python tools/option_tables.py --check
	$(VENV)/bin/python tools/async_to_sync.py --check

sync_copy: $(READY) ## write the blocking client from the asynchronous one
	@$(VENV)/bin/python tools/async_to_sync.py

bench: $(READY) $(COMPILED)/.ready ## the benchmarks, beside ActiveMQ and RabbitMQ, in 40 minutes; ARGS="codec pending" for some
	@tools/debian_packages.sh $(DEBIAN_BENCH)
	@$(ON_COMPILED) $(VENV)/bin/python -m bench.run $(QUICK) $(ARGS)

bench-quick: QUICK = --quick
bench-quick: bench ## a first look at the comparisons, in less than 5 minutes

lock: $(READY) ## pin the newest Python packages that pyproject.toml allows
	@$(VENV)/bin/python -m venv $(VENV)/lock
	@$(VENV)/lock/bin/python -m pip --quiet install uv
	@$(VENV)/lock/bin/uv pip compile --quiet --upgrade --universal --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --extra dev --output-file $(LOCK) pyproject.toml

$(COMPILED)/.ready: $(READY) setup.py $(shell find src -name '*.py')
	@tools/compiled_package.sh $(VENV) $(COMPILED)
	@touch $@

$(SPARK_CLASSES): $(READY) tests/helpers/spark_classes.py
	@$(VENV)/bin/python -m tests.helpers.spark_classes

clean: ## remove the environment, caches and build output
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf src/*.egg-info
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): $(LOCK) pyproject.toml
	@tools/python_environment.sh $(VENV) $(LOCK)
	@touch $@
