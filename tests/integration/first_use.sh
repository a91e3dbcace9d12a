#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A newcomer's first session: starts a file system, copies a tree in and out bit for bit, looks at it, restarts and stops the servers.
set -euo pipefail
dir=$(mktemp -d)
export HOME=$dir XDG_STATE_HOME=$dir/state
. "$(dirname "$0")/ports.sh"
take_ports 4
spate=$SPATE_BIN/spate
trap '"$spate" down -q --dir "$dir/fs" >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT

# Reads all of its input before it looks, because a command fails if its reader leaves early.
has() { grep -q "$@" <<< "$(cat)"; }

"$spate" up -q --dir "$dir/fs" --io 3 --port "$port"
"$spate" status > "$dir/status"
test "$(grep -c ' up ' "$dir/status")" = 4

mkdir -p "$dir/tree/a/b"
head -c 3000000 /dev/urandom > "$dir/tree/a/big"
head -c 100 /dev/urandom > "$dir/tree/a/b/small"
: > "$dir/tree/empty"
ln -s a/big "$dir/tree/link"
ln "$dir/tree/a/big" "$dir/tree/second"
chmod 640 "$dir/tree/a/b/small"
touch -d '2020-02-02 02:02:02' "$dir/tree/a/b/small"
truncate -s 5M "$dir/tree/holes"
if "$spate" cp -q "$dir/tree" spate:/tree 2> "$dir/error"; then exit 1; fi
grep -q 'use -r' "$dir/error"
for _ in first again; do  # what is there is replaced, links too
  mkdir -p "$dir/out"
  "$spate" cp -q -r "$dir/tree" spate:/
  "$spate" cp -q -r spate:/tree "$dir/out"
  "$spate" mkdir -p spate:/copies
  "$spate" cp -q -r spate:/tree spate:/copies
done
if "$spate" cp -q spate:/tree "$dir/no" 2> "$dir/error"; then exit 1; fi
grep -q 'use -r' "$dir/error"
mv "$dir/out/tree" "$dir/back"
diff -r "$dir/tree" "$dir/back"
test "$(stat -c '%h %i' "$dir/back/second")" = "$(stat -c '2 %i' "$dir/back/a/big")"
test "$(stat -c '%s' "$dir/back/holes")" = 5242880
test "$(stat -c '%b' "$dir/back/holes")" -lt 1024
"$spate" stat --json spate:/copies/tree/second | has '"links": 2'
"$spate" cp -q -r spate:/copies/tree "$dir/again"
diff -r "$dir/tree" "$dir/again"
test "$(stat -c '%a %Y' "$dir/back/a/b/small")" = "$(stat -c '%a %Y' "$dir/tree/a/b/small")"
test "$(readlink "$dir/back/link")" = a/big
"$spate" stat --json spate:/tree/second | has '"links": 2'
"$spate" cat spate:/tree/a/big | cmp - "$dir/tree/a/big"

# Everything that was acknowledged is there after all servers were killed.
for pid in "$dir"/fs/run/*.pid; do kill -9 "$(cut -d' ' -f1 "$pid")"; done
"$spate" up -q --dir "$dir/fs"
"$spate" cat spate:/tree/a/big | cmp - "$dir/tree/a/big"

"$spate" mv spate:/tree/empty spate:/tree/a/moved
"$spate" ls spate:/tree/a | has -x moved
"$spate" rm -r spate:/tree spate:/copies
test -z "$("$spate" ls spate:/)"
if "$spate" cat spate:/tree/a/big 2> "$dir/error"; then exit 1; fi
grep -q 'no such file' "$dir/error"
"$spate" down -q --dir "$dir/fs"
