#!/usr/bin/env bash
# All tests, in the order of their cost; or those that are named.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTEST=".venv/bin/python -m pytest"
[ $# -gt 0 ] && exec $PYTEST "$@"

part() { local began=$SECONDS; printf '\n== %s\n' "$1"; shift; "$@"; printf '== %d s\n' $((SECONDS - began)); }
part "unit" $PYTEST tests/unit tests/wire -n 2
part "records, uncompiled" env OTTLA_PURE=1 $PYTEST tests/unit/records -n 2
part "kills and wrong input" $PYTEST tests/crash -n 2
part "interop" $PYTEST tests/interop -n 2
part "spark" $PYTEST tests/spark
