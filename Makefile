# Each target installs what it needs into .venv and can be run again at once.
SHELL := /bin/bash
PY := .venv/bin/python
ARGS ?=
# What runs on macOS as well; tests call what only Linux has.
PACKAGES := ottla ottla_console ottla_pipelines ottla_registry ottla_tables benchmarks fuzz scripts

.PHONY: help setup demo test test-fast test-thorough test-pyspark coverage lint types types-linux types-macos types-public bench fuzz fuzz-coverage simulate docs site serve lock wheels release
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 16

setup:  ## create .venv with everything
	@scripts/setup.sh all dev interop

demo:  ## a year of flights through a broker into Spark (ARGS="--seconds 30 --resume …")
	@scripts/setup.sh demo
	@$(PY) -m ottla demo $(ARGS)

test:  ## all tests; ARGS=tests/unit for a part
	@scripts/setup.sh all dev interop
	@scripts/test.sh $(ARGS)

test-fast:  ## unit tests of the library without models: under a minute on two cores
	@scripts/setup.sh all dev interop
	@scripts/test.sh --fast

test-thorough:  ## all tests, with many more kills, seeds and examples
	@scripts/setup.sh all dev interop
	@scripts/test.sh --thorough

test-pyspark:  ## Spark's tests on another version of pyspark, in an environment of its own: VERSION=4.0.0 (ARGS=tests/spark/test_sink.py)
	@scripts/test_pyspark.sh $(VERSION) $(ARGS)

coverage:  ## unit tests with the lines that they cover; fails below the floor
	@scripts/setup.sh all dev interop
	@scripts/test.sh --coverage

lint:  ## style, formatting, spelling, glossary, import contract
	@scripts/setup.sh all dev interop
	@$(PY) -m ruff check . && $(PY) -m ruff format --check . && .venv/bin/codespell && .venv/bin/lint-imports --no-cache
	@$(PY) -m pytest tests/unit/docs/test_glossary.py

types:  ## mypy --strict, for Linux and macOS; pyright for the public names
	@scripts/setup.sh all dev interop
	@$(MAKE) -j2 --no-print-directory types-linux types-macos types-public

types-linux:
	@$(PY) -m mypy

types-macos:  # in a cache of its own: results hold for one platform
	@$(PY) -m mypy --platform darwin --cache-dir .mypy_cache/darwin --no-warn-unreachable \
	  $(addprefix -p ,$(PACKAGES)) -m pyspark_ottla -m pyspark_ottla_sql

types-public:  # fails if pyright does not know the type of a name that users import
	@$(PY) -m scripts.public_types

bench:  ## Ottla and Apache Kafka, the clients, Spark, side by side (ARGS="--quick", ARGS="broker --against DIR", …)
	@scripts/setup.sh all dev interop
	@$(PY) -m benchmarks $(ARGS)

fuzz:  ## random and damaged bytes against the decoders (ARGS="--seconds 60")
	@scripts/setup.sh all dev interop
	@$(PY) -m fuzz.decoders $(ARGS)

fuzz-coverage:  ## bytes that reach new code of decoders and parsers, with Atheris (ARGS="--seconds 60 --target znode_values")
	@scripts/setup.sh all dev interop fuzz
	@$(PY) -m fuzz.coverage $(ARGS)

simulate:  ## a cluster on virtual time: SEED=… for one run, MINUTES=… for fresh seeds
	@scripts/setup.sh all dev interop
	@$(PY) -m ottla.simulation $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

docs:  ## regenerate the tables in docs/, the dashboards in monitoring/, the types of options and the list of the API from the code
	@scripts/setup.sh all dev interop
	@$(PY) -m scripts.tables && $(PY) -m scripts.dashboards && $(PY) -m scripts.option_types && $(PY) -m scripts.public_api

site:  ## the documentation as a site in build/site
	@scripts/setup.sh schemas site
	@.venv/bin/sphinx-build -q -W --keep-going -b dirhtml docs build/site
	@echo "build/site is complete; to read it: $(PY) -m http.server --bind 127.0.0.1 --directory build/site"

serve:  ## a broker on 127.0.0.1:9092 (ARGS=server.properties)
	@scripts/setup.sh ""
	@$(PY) -m ottla broker $(ARGS)

lock:  ## renew the versions in constraints.txt
	@scripts/setup.sh all dev interop
	@$(PY) -m pip install -q uv && .venv/bin/uv pip compile -q --universal --python-version 3.11 --upgrade --no-annotate \
	  --custom-compile-command "make lock" --all-extras --group dev --group interop --group fuzz -o constraints.txt pyproject.toml

wheels:  ## wheels for the Pythons of this machine, repaired, checked and used without a compiler (PYTHONS="python3.13 …")
	@scripts/wheels.sh $(PYTHONS)

release:  ## build wheel and sdist into dist/
	@scripts/setup.sh all dev interop
	@$(PY) -m pip install -q build && $(PY) -m build
