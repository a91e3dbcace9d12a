#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dlopen() looks into a folder of Spate while the client starts. Many processes of different priority do it at once, so that in some of them the
# client's own thread comes first. With a defect in that case, one process in a hundred never ended.
. "$SPATE_SOURCE/tests/preload/lib.sh"
"$spate" up -q --dir "$dir/fs" --port "$port" --io 1
"$spate" mkdir spate:/d
for _ in 1 2 3; do
  running=()
  for nice in $(seq 0 19); do
    timeout -s KILL 60 "$spate" run -- bash -c 'cd /spate/d && LD_LIBRARY_PATH=. exec nice -n "$0" "$SPATE_BIN/preload_libraries"' "$nice" < /dev/null &
    running+=($!)
  done
  for pid in "${running[@]}"; do wait "$pid"; done
done
