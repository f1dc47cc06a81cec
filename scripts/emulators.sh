#!/usr/bin/env bash
# Installs emulators of object stores for tests into .cache/emulators: Azurite (Azure Blob Storage) with npm, and
# fake-gcs-server (Google Cloud Storage) with Go, which takes a minute or two of CPU time once. Says what is missing.
set -uo pipefail
cd "$(dirname "$0")/.."
AZURITE=3.35.0
FAKE_GCS=1.56.1
home=$PWD/.cache/emulators
mkdir -p "$home"

say() { printf '· %s\n' "$*" >&2; }

has() { [ "$(cat "$home/$1.version" 2>/dev/null)" = "$2" ]; }

install() {  # NAME VERSION PROGRAM COMMAND …: run COMMAND unless that version is there
  local name=$1 version=$2 program=$3; shift 3
  has "$name" "$version" && return
  command -v "$program" >/dev/null || { say "no $name for tests: $program is not on the PATH"; return; }
  say "installing $name $version into .cache/emulators"
  if "$@" > "$home/$name.log" 2>&1; then echo "$version" > "$home/$name.version"; else
    say "no $name for tests: $program failed: $(tail -n 1 "$home/$name.log")"; fi
}

install azurite "$AZURITE" npm npm install --prefix "$home" --no-audit --no-fund --no-save --ignore-scripts "azurite@$AZURITE"
install fake-gcs-server "$FAKE_GCS" go env GOBIN="$home" go install "github.com/fsouza/fake-gcs-server@v$FAKE_GCS"
