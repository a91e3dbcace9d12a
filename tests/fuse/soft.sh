#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# While a server does not answer, a call on a soft mount fails at client.deadline, and a call on a hard mount waits until the server
# is back. A mount obeys the environment like every client.
. "$(dirname "$0")/lib.sh"
export SPATE_CLIENT_DEADLINE='1 s'
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mount_at soft soft
mount_at hard
pids() { cut -d' ' -f1 "$dir"/fs/run/*.pid; }

echo before > "$dir/soft/file"
for how in -STOP -KILL; do
  echo cold > "$dir/hard/cold$how"  # what the soft mount has read is in its page cache, and may be read without a server
  if [ $how = -STOP ]; then error='timed out'; else error='No route to host'; fi
  stopped=$(pids)
  # shellcheck disable=SC2086
  if [ $how = -STOP ]; then stop $stopped; else kill -KILL $stopped; for pid in $stopped; do wait_until gone "$pid"; done; fi
  (cat "$dir/hard/file" > "$dir/read" && echo "after $how" > "$dir/hard/file") &
  waits=$!
  for call in "cat $dir/soft/cold$how" "mkdir $dir/soft/d$how" "stat $dir/soft/other" "dd status=none if=/dev/zero of=$dir/soft/file count=1 conv=notrunc"; do
    fails "$error" timeout 20 $call
  done
  kill -0 "$waits"
  if [ $how = -STOP ]; then kill -CONT $stopped; else "$spate" up -q --dir "$dir/fs"; fi
  wait "$waits"
  cat "$dir/read"
  equal "$(cat "$dir/hard/file")" "after $how"
  equal "$(timeout 60 cat "$dir/soft/file")" "after $how"  # it goes on as well
  mkdir -p "$dir/soft/d$how" && test -d "$dir/hard/d$how"
done
