# SPDX-License-Identifier: Apache-2.0
# The scripts beside it source this file. It makes a temporary folder, takes a range of ports, and removes everything at the end.
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

# wait_for COMMAND...: repeats the command until it succeeds, for at most 10 seconds.
wait_for() {
  for _ in $(seq 100); do
    if "$@" > /dev/null 2>&1; then return; fi
    sleep 0.1
  done
  fail "did not succeed within 10 seconds: $*"
}

# has [GREP OPTIONS] PATTERN: whether the input has the pattern. It reads all of its input, so that the command before it does not die of SIGPIPE.
has() { grep -q "$@" <<< "$(cat)"; }
