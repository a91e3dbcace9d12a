# SPDX-License-Identifier: Apache-2.0
# Sourced. Makes the folder $dir for a file system in $dir/fs, and an empty folder $dir/local. Removes both at the end.
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

# in_spate SCRIPT [ARGUMENTS...]: runs the script in bash below `spate run`.
in_spate() {
  local script=$1
  shift
  timeout 120 "$spate" run -- bash -euo pipefail -c "$script" "$script" "$@"
}

# check NAME SCRIPT: runs the script in the same way, and prints the name if it fails.
check() {
  local name=$1
  shift
  in_spate "$@" > "$dir/said" 2>&1 || { echo "failed: $name"; tail -n 20 "$dir/said"; exit 1; }
}

# has_program PROGRAM: whether this machine has the program.
has_program() { command -v "$1" > /dev/null 2>&1; }
