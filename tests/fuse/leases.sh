#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Mounts keep names and attributes under leases. They answer without the servers, and never with what has changed meanwhile.
. "$(dirname "$0")/lib.sh"
export SPATE_META_SESSION_LEASE='8 s'  # of a lease a quarter
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mount_at a
mount_at b leases
mount_at c noleases

supervisor() { pgrep -of "spate-mount $dir/fs/spate.toml $dir/$1( |$)"; }
# The supervisor of the mount, and the process that serves it.
processes() { supervisor "$1"; pgrep -P "$(supervisor "$1")"; }
# count NAME: prints a counter of the meta server.
count() {
  "$spate" stats 1 --prometheus | awk -v name="$1" 'index($1, name) == 1 { sum += $2 } END { print sum + 0 }'
}

# asks_nothing COUNTER COMMAND...: the command leaves the counter as it is. On a busy machine a mount may stand still for longer than its leases last. Then it
# asks once more, and the command is tried again.
asks_nothing() {
  local counter=$1 before
  shift
  for _ in 1 2 3 4 5; do
    before=$($counter)
    "$@" > /dev/null
    [ "$($counter)" != "$before" ] || return 0
  done
  echo "$counter: from $before to $($counter)"
  return 1
}

# Each mount sees at once what the others do.
for from in a b c; do
  for to in a b c; do
    test ! -e "$dir/$to/d"
    mkdir "$dir/$from/d" && test -d "$dir/$to/d" && test ! -e "$dir/$to/d/f"
    echo "$from" > "$dir/$from/d/f"
    equal "$(stat -c %s "$dir/$to/d/f")" 2
    echo more >> "$dir/$to/d/f"
    equal "$(stat -c %s "$dir/$from/d/f")" 7
    chmod 600 "$dir/$to/d/f" && equal "$(stat -c %a "$dir/$from/d/f")" 600
    mv "$dir/$from/d" "$dir/$to/e" && test ! -e "$dir/$to/d/f" && test -e "$dir/$from/e/f"
    rm -r "$dir/$to/e" && test ! -e "$dir/$from/e"
  done
done

# The mount answers without the server for what it keeps, but not for a file that is open for writing.
mkdir "$dir/b/tree" && (cd "$dir/b/tree" && seq 50 | xargs touch)
ls -l "$dir/a/tree" > /dev/null
[ "$(count spate_server_meta_leases_held)" -gt 50 ]
lookups_asked() { asked lookup_lease; }
ten_looks() { for _ in $(seq 10); do stat "$dir/a/tree/"*; done; }
asks_nothing lookups_asked ten_looks

# `ls -l` and `cp -a` ask for extended attributes. The mount does not ask the server again for those that it keeps. Another mount's changes are seen
# at once.
ls -l "$dir/a/tree" > /dev/null
xattrs_asked() { echo "$(asked getxattr) $(asked listxattr)"; }
asks_nothing xattrs_asked ls -l "$dir/a/tree"
python3 - "$dir/a/tree/1" "$dir/b/tree/1" <<'PROGRAM'
import os
import sys

a, b = sys.argv[1:]
for i in range(5):
    assert os.listxattr(a) == [], i
    os.setxattr(b, "user.x", b"1")
    assert os.listxattr(a) == ["user.x"], i
    os.removexattr(a, "user.x")
    assert os.listxattr(b) == [], i
PROGRAM

# A program reads to the end of a file that nobody writes. The mount asks no io server for its size. It sees what another mount appends.
sizes_asked() {
  for server in 2 3; do "$spate" stats "$server" --prometheus; done |
    awk 'index($1, "spate_rpc_request_ns_count") == 1 && index($1, "op=\"datafile_stat\"") { sum += $2 } END { print sum + 0 }'
}
for i in $(seq 20); do seq "$i" > "$dir/b/tree/read$i"; done
ls -l "$dir/a/tree" > /dev/null
all_tails() { for i in $(seq 20); do equal "$(tail -n 1 "$dir/a/tree/read$i")" "$i" >&2 || exit 1; done; }
asks_nothing sizes_asked all_tails
echo more >> "$dir/b/tree/read7" && equal "$(tail -n 1 "$dir/a/tree/read7")" more
# The status of a mount shows what its leases have saved.
before=$(status a answered_from_leases)
for i in $(seq 5); do stat "$dir/a/tree/$i" > /dev/null; done
[ "$(status a answered_from_leases)" -gt "$before" ] && [ "$(status a asked)" -gt 0 ]
equal "$(status c answered_from_leases)" 0
equal "$(status c options)" noleases
equal "$(status a supervisor) $(status a server)" "$(processes a | xargs)"
"$spate" --json mount --status "$dir/c" | python3 -c '
import json, sys
told = json.load(sys.stdin)
assert told["options"] == "noleases" and told["crashes"] == 0 and told["open_files"] == 0 and told["asked"] >= 0, told'
fails 'nothing is mounted' "$spate" mount --status "$dir/fs"
exec 5> "$dir/b/live"
for i in $(seq 5); do
  echo line >&5
  equal "$(stat -c %s "$dir/a/live")" "$((i * 5))"
done
exec 5>&-

# The meta server restarts. A mount sees also what has changed before it has learned of the restart.
stat "$dir/a/tree/7" "$dir/b/tree/7" > /dev/null
kill -9 "$(cut -d' ' -f1 "$dir/fs/run/server-1.pid")"
"$spate" up -q --dir "$dir/fs"
for mode in 600 640 644; do
  chmod $mode "$dir/b/tree/7"
  equal "$(stat -c %a "$dir/a/tree/7")" $mode
done
echo line >> "$dir/b/live" && equal "$(stat -c %s "$dir/a/live")" 30

# Others wait for a mount that stands still until its leases have expired. When it goes on, it answers with nothing old.
stat "$dir/a/tree/8" > /dev/null
stopped=$(processes a)
kill -STOP $stopped
chmod 611 "$dir/c/tree/8"
mv "$dir/c/tree/9" "$dir/c/tree/nine"
kill -CONT $stopped
equal "$(stat -c %a "$dir/a/tree/8")" 611
test ! -e "$dir/a/tree/9" && test -e "$dir/a/tree/nine"

# The next process that serves the mount keeps nothing of what the one before kept, and nobody waits for it.
stat "$dir/a/tree/11" > /dev/null
kill -9 "$(pgrep -P "$(supervisor a)")"
chmod 622 "$dir/b/tree/11" && equal "$(stat -c %a "$dir/a/tree/11")" 622

# A mount that is killed does not delay others for ever.
stat "$dir/a/tree/10" > /dev/null
kill -9 $(processes a)
chmod 604 "$dir/b/tree/10" && equal "$(stat -c %a "$dir/c/tree/10")" 604
