# Everything is done in .venv, made from requirements.lock once; it is made again when the lock or
# pyproject.toml changes. `make` alone lists what there is.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARCHIVE := $(VENV)/spark.jsa
DEMO_OUT ?= out/demo
CYCLES ?= 1000
SEED ?=
BROKER ?= sluicemq
FAULTS ?= 100
QUEUES ?= quorum
NETWORK ?= proxies
NODES ?= 3
SCALE ?= 1
TARGET ?= session
SECONDS ?= 60
OUT ?= out/post
# Six processes on two cores: many tests wait for sockets, syncs and restarts (tests/support/scheduling.py).
ALL_TESTS := --numprocesses 6 --no-loadscope-reorder --timeout 900 --durations 25

# What is compiled once need not be by each of the many processes that tests start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test thorough native bytecode fuzz differential interop dist docs torture torture-cluster jepsen torture-spark post check format generated serve java debian strace clients clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(READY)  ## make .venv with every pinned package, and .venv/bin/sluicemq, compiled where there is a C compiler
	@$(BIN)/python tools/compile_hot.py || true
	@echo "$(BIN)/sluicemq is ready"

$(READY): requirements.lock pyproject.toml tools/prepare.py
	@$(PYTHON) tools/prepare.py $(VENV)
	@touch $@

demo: java $(READY)  ## broker, stress run, Spark report, in a few minutes
	@PYTHONPATH=$$($(BIN)/python tools/compiled_tree.py) $(BIN)/python -m sluicemq.cli.demo --out $(DEMO_OUT)

test: java debian $(READY)  ## all checks and all tests; ARGS="tests/unit -k name" for a part
	@$(MAKE) --no-print-directory --jobs 2 --output-sync check $(ARCHIVE) $(if $(ARGS),,bytecode native)
	$(BIN)/python -m pytest $(or $(ARGS),$(ALL_TESTS))

thorough: java debian $(READY)  ## all tests, whole: what make test leaves out, too; hours. ARGS="tests/sim"
	THOROUGH_TESTS=yes $(BIN)/python -m pytest --timeout 7200 \
		$(or $(ARGS),--numprocesses 2 --no-loadscope-reorder)

interop: clients $(READY)  ## the suites of real clients, RabbitMQ beside it; ARGS="kombu pika" for some
	@PYTHONPATH=src:tests:bench $(BIN)/python tools/interop $(ARGS)

dist: native  ## build the source distribution, the pure and the compiled wheel, into dist/
	@$(BIN)/python tools/dist.py

docs: $(READY)  ## build the site of the documents, into out/docs/site
	@$(BIN)/python tools/site

fuzz: $(READY)  ## look for input that breaks something: TARGET=session SECONDS=60; fuzz/__main__.py
	@$(BIN)/python -c "import atheris" 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet --no-deps --requirement fuzz/requirements.txt
	@PYTHONPATH=src:tests $(BIN)/python fuzz $(TARGET) --seconds $(SECONDS)

differential: $(READY)  ## random scripts on SluiceMQ and RabbitMQ, compared: SECONDS=60 SEED=N ARGS="--nodes 3"
	@PYTHONPATH=src:bench:tests $(BIN)/python tools/differential --seconds $(SECONDS) \
		$(SEED:%=--seed %) $(ARGS)

torture: strace $(READY)  ## kill -9 the broker under load, CYCLES=1000 times; SEED=N for the same clients
	@PYTHONPATH=tests $(BIN)/python -m durability.torture --cycles $(CYCLES) $(SEED:%=--seed %)

torture-cluster: $(READY)  ## hurt three nodes under load: FAULTS=100 QUEUES=classic BROKER=rabbitmq NODES=5 SEED=N
	@PYTHONPATH=src:tests $(BIN)/python -m cluster.torture --faults $(FAULTS) --queues $(QUEUES) \
		--broker $(BROKER) --network $(NETWORK) --nodes $(NODES) $(SEED:%=--seed %)

jepsen: $(READY)  ## the parameters of RabbitMQ's Jepsen tests: BROKER=rabbitmq SCALE=1 NODES=3 ARGS="--sets 1-4"
	@PYTHONPATH=src:tests $(BIN)/python -m cluster.jepsen --broker $(BROKER) --scale $(SCALE) \
		--nodes $(NODES) $(SEED:%=--seed %) $(ARGS)

torture-spark: java $(READY)  ## kill -9 driver, workers, broker under queries; SEED=N BROKER=rabbitmq
	@PYTHONPATH=src:tests $(BIN)/python -m spark.killing --broker $(BROKER) $(SEED:%=--seed %)
	@PYTHONPATH=src:tests $(BIN)/python -m spark.shuffles
	@PYTHONPATH=src:tests $(BIN)/python -m spark.executors --executors 2 $(SEED:%=--seed %)
	@PYTHONPATH=src:tests $(BIN)/python -m spark.executors --executors 3 $(SEED:%=--seed %)

post: java $(READY)  ## run RabbitMQ's post on three nodes of ours, then of RabbitMQ: OUT=out/post ARGS="--short"
	@PYTHONPATH=src:tests $(BIN)/python tools/post.py $(OUT) $(ARGS)

check: $(READY)  ## ruff, mypy --strict, import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)  ## let ruff mend what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

generated: $(READY)  ## write the generated code and documents anew
	$(BIN)/python tools/generate_methods.py
	$(BIN)/python tools/generate_configuration.py
	$(BIN)/python tools/generate_cli_docs.py
	$(BIN)/python tools/generate_spark_options.py

serve: $(READY)  ## run the broker on 127.0.0.1:5672
	@$(BIN)/sluicemq serve

$(ARCHIVE): $(READY) tools/archive_classes.py
	@echo "archiving Spark's classes, so that its starts in the tests take half as long"
	@$(BIN)/python tools/archive_classes.py $@ >$@.log 2>&1 || echo "that failed: see $@.log"

native: $(READY)
	@$(BIN)/python tools/compile_hot.py

bytecode: $(READY)  # before six processes begin with that at once
	@$(BIN)/python -m pytest --collect-only -qq >$(VENV)/collected.log 2>&1 || { tail -40 $(VENV)/collected.log; exit 1; }

java:
	@$(PYTHON) tools/check_java.py

debian: strace  ## have what tests need of Debian's packages; who lacks one skips its tests
	@command -v chromedriver >/dev/null || apt-get install -y chromium-driver >/dev/null \
		|| echo "chromium is missing and cannot be installed: the web page is NOT tested"
	@command -v prometheus >/dev/null \
		|| apt-get install -y --no-install-recommends prometheus >/dev/null \
		|| echo "prometheus is missing and cannot be installed: scrapes are NOT tested"
	@command -v amqp-publish >/dev/null || apt-get install -y amqp-tools >/dev/null \
		|| echo "amqp-tools are missing and cannot be installed: librabbitmq is NOT tested"

clients:
	@command -v amqp-publish >/dev/null || apt-get install -y amqp-tools >/dev/null \
		|| echo "amqp-tools are missing and cannot be installed: librabbitmq is NOT tested"
	@test -d /usr/share/gocode/src/github.com/rabbitmq/amqp091-go && command -v go >/dev/null \
		|| apt-get install -y --no-install-recommends golang-go \
			golang-github-rabbitmq-amqp091-go-dev >/dev/null \
		|| echo "Go is missing and cannot be installed: its client is NOT tested"

strace:
	@command -v strace >/dev/null || apt-get install -y strace >/dev/null \
		|| echo "strace is missing and cannot be installed: faults at system calls are NOT tested"

clean:  ## remove .venv and whatever tools left behind
	rm -rf $(VENV) build dist out spark-warehouse src/*.egg-info
	rm -rf .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
