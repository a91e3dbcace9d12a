# SPDX-License-Identifier: Apache-2.0
# dbench makes the file operations of several users of an office program, also synchronous ones, and checks each answer.
# needs: dbench
# seconds: 600
load=/usr/share/dbench/client.txt
[ -r "$load" ] || skip "dbench has no $load"
for options in "" "-s -S"; do
  # shellcheck disable=SC2086
  dbench -c "$load" -t 10 -x -D . $options 4 > "$local/out" 2>&1 || { tail -n 20 "$local/out"; exit 1; }
  if grep -iE 'error|failed|expected' "$local/out"; then exit 1; fi
  grep Throughput "$local/out"
done
