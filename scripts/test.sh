#!/usr/bin/env bash
# All tests, in the order of their cost; or those that are named.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTEST=".venv/bin/python -m pytest"
[ $# -gt 0 ] && exec $PYTEST "$@"

part() { local began=$SECONDS; printf '\n== %s\n' "$1"; shift; "$@"; printf '== %d s\n' $((SECONDS - began)); }
# Many tests wait for something rather than compute: three workers keep two cores busy.
part "unit" $PYTEST tests/unit -n 3 --ignore tests/unit/spark --ignore tests/unit/pipelines --ignore tests/unit/typing
part "wire and types" $PYTEST tests/wire tests/unit/typing -n 2
part "records, uncompiled" env OTTLA_PURE=1 $PYTEST tests/unit/records -n 2
part "kills and wrong input" $PYTEST tests/crash -n 3
part "interop" $PYTEST tests/interop -n 2
part "spark" $PYTEST tests/unit/spark tests/unit/pipelines tests/spark
