#!/usr/bin/env bash
# All tests, from the cheapest part to the dearest; or those that are named; or --fast, --coverage, --write-durations; or
# all with many more kills, seeds and examples (--thorough).
set -euo pipefail
cd "$(dirname "$0")/.."
PYTEST=".venv/bin/python -m pytest"
# Each worker would otherwise rewrite the asserts of all tests again, which takes it 8 seconds.
export PYTHONDONTWRITEBYTECODE=
# Half of the tests wait rather than compute: ten processes keep two cores busy. They are forked after the collection,
# except where libraries of the system do not survive a fork.
WORKERS="-p tests.longest_first -p tests.forked --forks 10"
[ "$(uname)" = Linux ] || WORKERS="-n 6"
# Applications on top of the library, random histories, and checks of the whole source: not for every save.
LONGER="tests/unit/spark tests/unit/pipelines tests/unit/console tests/unit/tables $(find tests/unit -name 'test_*_model.py')
  tests/unit/storage/test_crashes.py tests/unit/replication/test_simulation.py tests/unit/test_structure.py tests/unit/docs tests/unit/typing"
UNIT="tests/unit $(printf -- '--ignore %s ' $LONGER)"
# One queue with the longest files first, so that no core is idle before the end: some tests compute, others wait. A file's
# tests share a JVM or brokers, so they stay together.
QUEUE="tests/site tests/how_to tests/upgrade tests/chaos tests/wire tests/simulation tests/instructions tests/crash tests/interop tests/spark
  $LONGER -n 4 -p tests.longest_first --dist loadfile --no-loadscope-reorder"

# Run a command whose temporary files are in memory, where that has 2 GiB left: unit tests sync 24,000 small files.
in_memory() (
  shm=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
  if [ "${shm:-0}" -gt 2097152 ]; then
    TMPDIR=$(mktemp -d /dev/shm/ottla-tests.XXXXXX)
    export TMPDIR
    trap 'rm -rf "$TMPDIR"' EXIT
  fi
  "$@"
)

# Run tests beside each other. A few that fail run once more, alone: one that was starved by its neighbours then passes, and
# is listed as flaky, which is a bug to find; one that fails alone too fails here. More than five at once are no accident.
alone_if_failed() {
  local cache status=0 failed
  cache=$(mktemp -d)
  "$@" -o cache_dir="$cache" || status=$?
  failed=$(grep -c :: "$cache/v/cache/lastfailed" 2>/dev/null || true)
  if [ "$status" -eq 1 ] && [ "${failed:-0}" -ge 1 ] && [ "$failed" -le 5 ]; then
    printf '\n== %s failed beside others and run again, alone:\n' "$failed"
    sed -n 's/^ *"\(.*::.*\)".*/\1/p' "$cache/v/cache/lastfailed" | tee -a "${FLAKY:-/dev/null}"
    status=0
    $PYTEST $(sed -n 's/^ *"\([^":]*\)::.*/\1/p' "$cache/v/cache/lastfailed" | sort -u) \
      --last-failed --last-failed-no-failures none -o cache_dir="$cache" || status=$?
  fi
  rm -rf "$cache"
  return "$status"
}

# Unit tests with the lines of the library that they cover, where they can be forked.
covered() {
  local lines="-p tests.covered"
  [ "$(uname)" = Linux ] || lines=""
  in_memory alone_if_failed $PYTEST $lines $UNIT $WORKERS
}

# A fresh seed that breaks a promise has found a fault, hardly ever of the change that happens to meet it: it is listed at
# the end with those tests, and `--seed` repeats it.
fresh_seeds() {
  .venv/bin/python -m ottla.simulation --runs "$FRESH_SEEDS" | tee "$FLAKY.seeds" || true
  grep BROKEN "$FLAKY.seeds" >> "$FLAKY" || true
  rm -f "$FLAKY.seeds"
}

SEEDS=5 FRESH_SEEDS=5
case "${1:-}" in
  --thorough) export OTTLA_THOROUGH=1; SEEDS=20 FRESH_SEEDS=200 ;;
  --fast) in_memory $PYTEST $UNIT $WORKERS; exit ;;
  --coverage) covered; exit ;;
  --write-durations) exec $PYTEST $QUEUE --write-durations ;;
  ?*) exec $PYTEST "$@" ;;
esac

# Seconds and CPU seconds, which tell what a loaded machine hides. The CPU of processes that outlive their parents is not in it.
part() {
  local began=$SECONDS
  printf '\n== %s\n' "$1" && shift
  times > "$TIMES"
  "$@"
  times >> "$TIMES"
  awk -v s=$((SECONDS - began)) -F '[ms ]' 'NR % 2 == 0 { last = cpu; cpu = 60 * ($1 + $4) + $2 + $5 }
    END { printf "== %d s, %d s of CPU\n", s, cpu - last }' "$TIMES"
}
FLAKY=$(mktemp) TIMES=$(mktemp)
part "unit" covered
part "records, uncompiled" env OTTLA_PURE=1 $PYTEST tests/unit/records -n 2
part "simulation, the same seeds each time" .venv/bin/python -m ottla.simulation --seed 1 --runs "$SEEDS"
part "simulation, fresh seeds" fresh_seeds
part "kills, simulation, interop, Spark" alone_if_failed $PYTEST $QUEUE --durations 10
if [ -s "$FLAKY" ]; then
  printf '\n== to be fixed: tests that failed beside others and passed alone, fresh seeds that broke a promise\n' && cat "$FLAKY"
fi
rm -f "$FLAKY" "$TIMES"
