# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts beside it: a temporary folder, a port range of its own, an end without leftovers.
set -euo pipefail
dir=$(mktemp -d)
export HOME=$dir XDG_STATE_HOME=$dir/state XDG_DATA_HOME=$dir/data
unset SPATE_FS
spate=$SPATE_BIN/spate
spated=$SPATE_BIN/spated

end() {
  for fs in "$dir"/*/spate.toml; do
    [ -e "$fs" ] && "$spate" down -q --dir "$(dirname "$fs")" > /dev/null 2>&1 || true
  done
  rm -rf "$dir"
}
trap end EXIT
. "$(dirname "${BASH_SOURCE[0]}")/ports.sh"

fail() {
  echo "$0: $*" >&2
  exit 1
}

# wait_for COMMAND...: until it succeeds, at most 10 seconds.
wait_for() {
  for _ in $(seq 100); do
    if "$@" > /dev/null 2>&1; then return; fi
    sleep 0.1
  done
  fail "waited in vain for: $*"
}

# has [GREP OPTIONS] PATTERN: looks at all of its input, so that the command before it does not die of a pipe closed early.
has() { grep -q "$@" <<< "$(cat)"; }
