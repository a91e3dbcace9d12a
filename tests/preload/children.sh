#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of preload_children on /spate: those that the command line names, or all of them.
. "$SPATE_SOURCE/tests/preload/lib.sh"
"$spate" up -q --dir "$dir/fs" --port "$port" --io 1
"$spate" mkdir spate:/c
export LIBRARY=$SPATE_BIN/libpreload_children_library.so
[ $# -gt 0 ] || set -- first_calls relative_calls spawns_leave_no_memory handlers_of_fork one_child_one_signal load_a_library signals_end_sendfile several_messages
for test in "$@"; do
  timeout 120 "$spate" run -- "$SPATE_BIN/preload_children" "$test" /spate/c < /dev/null || { echo "failed: $test ($?)"; exit 1; }
done
