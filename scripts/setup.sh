#!/usr/bin/env bash
# Creates .venv with Ottla (editable, compiled where a C compiler is found) and the packages that a verb needs.
#
#   scripts/setup.sh EXTRA [GROUP ...]      such as: scripts/setup.sh demo, scripts/setup.sh all dev interop
#
# Installs nothing when the same was installed from the same pyproject.toml and sources before. PYTHON names the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
VENV=.venv

say() { printf '· %s\n' "$*" >&2; }

# What pip does for a package that is not editable. Where Python may not write bytecode (PYTHONDONTWRITEBYTECODE), each
# process would compile the sources again: a broker takes 70 ms for that, a Spark query 200.
compile_sources() { "$VENV/bin/python" -m compileall -q src; }

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
  say "Python 3.11 or newer is needed; $PYTHON is $("$PYTHON" --version 2>&1 || echo missing). Set PYTHON=…"; exit 1; }

make_venv() {
  "$PYTHON" -m venv "$VENV" >/dev/null 2>&1 && return
  rm -rf "$VENV"
  # Debian's python3 leaves ensurepip to a package of its own
  say "python3-venv is missing; installing it with apt-get"
  local sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq && $sudo apt-get install -y -qq python3-venv python3-dev >/dev/null
  "$PYTHON" -m venv "$VENV"
}

extra=${1:-}; shift || true
groups=("$@")
want=$(cat pyproject.toml constraints.txt setup.py scripts/emulators.sh src/ottla/records/*.py src/ottla/records/*.pxd | cksum)
stamp="$VENV/.ready-$(echo "${extra:-base} ${groups[*]}" | tr ' /' '--')"
[ -e "$stamp" ] && [ "$(cat "$stamp")" = "$want" ] && { compile_sources; exit 0; }

[ -x "$VENV/bin/python" ] || { say "making $VENV with $("$PYTHON" --version)"; make_venv; }
"$VENV/bin/python" -m pip install -q --disable-pip-version-check "pip>=25.1" "setuptools>=77" wheel "Cython>=3.1"
args=(); for group in "${groups[@]}"; do args+=(--group "$group"); done
say "installing ottla${extra:+[$extra]}${groups:+ with ${groups[*]}} into $VENV (the first time this takes some minutes)"
"$VENV/bin/python" -m pip install -q --disable-pip-version-check --no-build-isolation -c constraints.txt -e ".${extra:+[$extra]}" "${args[@]}"
"$VENV/bin/python" -c 'from ottla.records import COMPILED; print("· the hot path is", "compiled" if COMPILED else "NOT compiled: no C compiler or no Python headers; everything works, slower")' >&2
case " ${groups[*]} " in *" interop "*) scripts/emulators.sh ;; esac
echo "$want" > "$stamp"
compile_sources
