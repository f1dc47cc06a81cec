#!/usr/bin/env bash
# All tests, in the order of their cost; or those that are named.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTEST=".venv/bin/python -m pytest"
[ $# -gt 0 ] && exec $PYTEST "$@"

part() { local began=$SECONDS; printf '\n== %s\n' "$1"; shift; "$@"; printf '== %d s\n' $((SECONDS - began)); }
# Many tests wait for something rather than compute: three workers keep two cores busy.
WITH_SPARK="tests/unit/spark tests/unit/pipelines"
part "unit" $PYTEST tests/unit -n 3 $(printf -- '--ignore %s ' $WITH_SPARK tests/unit/typing)
# The chaos mostly waits, so what computes runs beside it.
part "chaos, wire and types" $PYTEST tests/chaos tests/wire tests/unit/typing -n 2
part "records, uncompiled" env OTTLA_PURE=1 $PYTEST tests/unit/records -n 2
part "kills and wrong input" $PYTEST tests/crash -n 3
part "interop" $PYTEST tests/interop -n 2 --durations 10
# A file's tests share a JVM, so they stay together.
part "spark" $PYTEST $WITH_SPARK tests/spark -n 2 --dist loadfile --durations 10
