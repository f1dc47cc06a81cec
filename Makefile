# Ottla's ten verbs. Each sets up what it needs by itself and can be run again at once.
SHELL := /bin/bash
PY := .venv/bin/python
ARGS ?=

.PHONY: help setup demo test lint types bench fuzz docs serve release
.DEFAULT_GOAL := help

help:  ## list the verbs
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

setup:  ## make .venv with everything
	@scripts/setup.sh all dev interop

demo:  ## a year of flights through a broker into Spark (ARGS="--seconds 30 --resume …")
	@scripts/setup.sh demo
	@$(PY) -m ottla demo $(ARGS)

test:  ## all tests; ARGS=tests/unit for a part
	@scripts/setup.sh all dev interop
	@scripts/test.sh $(ARGS)

lint:  ## style, formatting, import contract
	@scripts/setup.sh all dev interop
	@$(PY) -m ruff check . && $(PY) -m ruff format --check . && .venv/bin/lint-imports --no-cache

types:  ## mypy --strict
	@scripts/setup.sh all dev interop
	@$(PY) -m mypy

bench:  ## Ottla and Apache Kafka side by side, ratios (ARGS="--quick"); the clients and their peers; Spark over both
	@scripts/setup.sh all dev interop
	@$(PY) -m benchmarks.compare $(ARGS)
	@$(PY) -m benchmarks.clients
	@$(PY) -m benchmarks.spark

fuzz:  ## random and damaged bytes against the decoders (ARGS="--seconds 60")
	@scripts/setup.sh all dev interop
	@$(PY) -m fuzz.decoders $(ARGS)

docs:  ## write the tables in docs/ anew from the code
	@scripts/setup.sh all dev interop
	@$(PY) -m scripts.tables

serve:  ## a broker on 127.0.0.1:9092 (ARGS=server.properties)
	@scripts/setup.sh ""
	@$(PY) -m ottla broker $(ARGS)

release:  ## build wheel and sdist into dist/
	@scripts/setup.sh all dev interop
	@$(PY) -m pip install -q build && $(PY) -m build
