#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs write and read mirrored files on two mounts. Meanwhile one io server after the other is killed, stopped and shut down. No call
# fails, and no byte is lost.
. "$(dirname "$0")/lib.sh"
up() { "$spate" up -q --dir "$dir/fs" --io 3 --port "$port" "$@"; }
up --replicas 2
mount_at m
mount_at past cache=none
mkfifo "$dir/end"
exec 3<> "$dir/end"
workers=()
for name in m past; do
  : > "$dir/$name.out"  # The worker's shell may open it after it is first read.
  python3 "$SPATE_SOURCE/tests/integration/mirror_worker.py" "$dir/$name/file-$name" 7 < "$dir/end" >> "$dir/$name.out" 3>&- &
  workers+=($!)
done

# longer FILE LINES: whether a worker has printed more lines than that.
longer() { [ "$(wc -l < "$1")" -gt "$2" ]; }
go_on() {
  local name count
  for name in m past; do
    count=$(wc -l < "$dir/$name.out")
    wait_until longer "$dir/$name.out" $((count + 2)) || { cat "$dir/$name.out"; return 1; }
  done
}
# Whether `spate status` shows that no group lacks a copy.
whole() { "$spate" status --json 2> /dev/null | python3 -c '
import json, sys
sys.exit(not any(row.get("groups") and row["degraded"] == 0 for row in json.load(sys.stdin)))'; }

go_on
server=2
for signal in KILL STOP TERM; do
  pid=$(cut -d" " -f1 "$dir/fs/run/server-$server.pid")
  kill -$signal "$pid"
  [ $signal = STOP ] || wait_until gone "$pid"
  go_on
  [ $signal != STOP ] || kill -CONT "$pid"
  up
  wait_until whole
  go_on
  server=$((server + 1))
done
echo >&3
for worker in "${workers[@]}"; do wait "$worker"; done
# A server that was started anew may still be receiving copies. fsck does not compare these.
checked() { code=0; "$spate" fsck > "$dir/said" || code=$?; [ $code != 8 ] || ! grep -q "is not up to date" "$dir/said"; }
wait_until checked
[ "$code" = 0 ] || { cat "$dir/said"; exit 1; }
