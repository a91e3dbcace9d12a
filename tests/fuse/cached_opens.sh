#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A mount opens a file again without the servers after a program has read and closed it. Another mount does not notice: a file that it removes
# is gone, and what it writes is read. Both hold also when the process that serves the first mount was replaced or killed.
. "$(dirname "$0")/lib.sh"
export SPATE_META_SESSION_LEASE='8 s'
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mount_at a noatime
mount_at b
datafiles() { find "$dir"/fs/server-*/target-0/d -type f | wc -l; }
none_left() { [ "$(datafiles)" -eq 0 ]; }
keeps() { [ "$(status "$1" kept_opens)" -eq "$2" ]; }
# kept_after_visits NUMBER FILE...: a mount does not keep a file yet that is closed right after another mount's change. So each look counts as a
# visit.
kept_after_visits() { cat "${@:2}" > /dev/null && keeps a "$1"; }
is_served_anew() { [ "$(status a server)" != "$1" ] && [ -n "$(status a server)" ]; }

# The mount asks no server for a file that it keeps.
for i in $(seq 20); do echo "$i" > "$dir/b/f$i"; done
ls -l "$dir/a" > /dev/null
wait_until kept_after_visits 20 "$dir"/a/f*
opened=$(asked open) closed=$(asked close) before=$(status a opened_without_asking)
for _ in 1 2 3; do for i in $(seq 20); do equal "$(cat "$dir/a/f$i")" "$i"; done; done
equal "$(asked open) $(asked close)" "$opened $closed"
equal "$(($(status a opened_without_asking) - before))" 60

# This mount sees at once what the other one does, and nothing is left of a file that the other one removes.
for i in $(seq 5); do
  echo more >> "$dir/b/f$i" && equal "$(tail -n 1 "$dir/a/f$i")" more
  equal "$(cat "$dir/a/f$i" | wc -l)" 2
  mv "$dir/b/f$i" "$dir/b/other" && fails 'No such file' cat "$dir/a/f$i"
done
rm "$dir"/b/* && fails 'No such file' cat "$dir/a/f20"
wait_until none_left
wait_until keeps a 0

# A descriptor that was opened that way can be read after the removal, until it is closed.
echo text > "$dir/b/open" && wait_until kept_after_visits 1 "$dir/a/open"
exec 5< "$dir/a/open"
keeps a 0
rm "$dir/b/open"
equal "$(cat <&5)" text
exec 5<&-
wait_until none_left

# The next process of the mount ends the opens that the one before has kept.
for how in upgrade kill; do
  echo "$how" > "$dir/b/file"
  ls -l "$dir/a" > /dev/null
  wait_until kept_after_visits 1 "$dir/a/file"
  server=$(status a server)
  if [ $how = upgrade ]; then "$spate" mount --upgrade "$dir/a"; else kill -9 "$server"; fi
  wait_until is_served_anew "$server"
  equal "$(cat "$dir/a/file")" $how
  rm "$dir/b/file"
  wait_until none_left
done

# The meta server restarts, and the mount ends.
echo text > "$dir/b/file"
ls -l "$dir/a" > /dev/null
wait_until kept_after_visits 1 "$dir/a/file"
kill -9 "$(cut -d' ' -f1 "$dir/fs/run/server-1.pid")"
"$spate" up -q --dir "$dir/fs"
equal "$(cat "$dir/a/file")" text
ls -l "$dir/a" > /dev/null
cat "$dir/a/file" > /dev/null
"$spate" umount "$dir/a"
rm "$dir/b/file"
wait_until none_left
