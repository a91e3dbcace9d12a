# SPDX-License-Identifier: Apache-2.0
# Sourced: a file system in $dir/fs, an empty folder $dir/local, both gone at the end.
set -euo pipefail
dir=$(mktemp -d)
export HOME=$dir XDG_STATE_HOME=$dir/state SPATE_FS=$dir/fs TMPDIR=$dir
unset SPATE_PREFIX
. "$SPATE_SOURCE/tests/integration/ports.sh"
take_ports 4
spate=$SPATE_BIN/spate
mkdir "$dir/local"

end() {
  for broker in $(pgrep -f "spate-broker $dir/"); do kill "$broker" || true; done
  "$spate" down -q --force --dir "$dir/fs" > /dev/null 2>&1 || true
  rm -rf "$dir"
}
trap end EXIT

# in_spate SCRIPT [ARGUMENTS...]: runs it by bash below `spate run`.
in_spate() {
  local script=$1
  shift
  timeout 120 "$spate" run -- bash -euo pipefail -c "$script" "$script" "$@"
}

# check NAME SCRIPT: the same, and says which failed.
check() {
  local name=$1
  shift
  in_spate "$@" > "$dir/said" 2>&1 || { echo "failed: $name"; tail -n 20 "$dir/said"; exit 1; }
}

# needs PROGRAM: the rest of the script is skipped without it.
has_program() { command -v "$1" > /dev/null 2>&1; }
