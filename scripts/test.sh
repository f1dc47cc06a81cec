#!/usr/bin/env bash
# All tests, from the cheapest part to the dearest; or those that are named; or --fast, --coverage.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTEST=".venv/bin/python -m pytest"
# Most tests wait for something rather than compute: three workers keep two cores busy.
WITH_SPARK="tests/unit/spark tests/unit/pipelines"
UNIT="tests/unit -n 3 $(printf -- '--ignore %s ' $WITH_SPARK tests/unit/typing)"
case "${1:-}" in
  --fast) exec $PYTEST $UNIT ;;
  --coverage) exec $PYTEST $UNIT --cov --cov-report term:skip-covered --cov-fail-under 85 ;;
  ?*) exec $PYTEST "$@" ;;
esac

part() { local began=$SECONDS; printf '\n== %s\n' "$1"; shift; "$@"; printf '== %d s\n' $((SECONDS - began)); }
part "unit" $PYTEST $UNIT
# The chaos mostly waits, so what computes runs beside it.
part "chaos, wire and types" $PYTEST tests/chaos tests/wire tests/unit/typing -n 2
part "records, uncompiled" env OTTLA_PURE=1 $PYTEST tests/unit/records -n 2
part "kills and wrong input" $PYTEST tests/crash -n 3
part "interop" $PYTEST tests/interop -n 2 --durations 10
# A file's tests share a JVM, so they stay together.
part "spark" $PYTEST $WITH_SPARK tests/spark -n 2 --dist loadfile --durations 10
