#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# spated by itself: arguments, environment, log file and its rotation, the service manager's socket.
source "$(dirname "$0")/common.sh"

"$spated" --help | has '^usage: spated' || fail '--help'
"$spated" --version | has '^spated [0-9]' || fail '--version'
for bad in '--server 1' '--config x --server 0' '--config x --server 1x' '--config x --server 1 more' '--nonsense'; do
  code=0
  # shellcheck disable=SC2086
  "$spated" $bad > "$dir/out" 2> "$dir/err" || code=$?
  test "$code" = 2 || fail "spated $bad ends with $code"
  grep -q '^usage: spated' "$dir/err" || fail "spated $bad does not tell how it is used"
done

take_ports 2
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
"$spate" down -q --dir "$dir/fs"

# A socket like systemd's, which prints what it gets.
python3 - "$dir/notify" > "$dir/notified" <<'P' &
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
for _ in range(2):
    print(s.recv(100).decode(), flush=True)
P
listener=$!
wait_for test -S "$dir/notify"

NOTIFY_SOCKET=$dir/notify SPATE_LOG_FILE=$dir/log SPATE_LOG_FORMAT=json SPATE_LOG_LEVEL=off \
  "$spated" --config "$dir/fs/spate.toml" --server 2 --set log.level=info 2> "$dir/err" &
pid=$!
wait_for grep -qx READY=1 "$dir/notified"
grep -q '"message":"serving' "$dir/log" || fail 'no JSON in the log file, or --set does not win over the environment'

mv "$dir/log" "$dir/log.1"
kill -HUP "$pid"
wait_for test -e "$dir/log"
kill -TERM "$pid"
wait "$pid" || fail 'not an orderly stop'
wait "$listener"
grep -qx STOPPING=1 "$dir/notified" || fail 'the service manager was not told of the stop'
grep -q '"message":"stopping' "$dir/log" || fail 'what came after SIGHUP is not in the new file'
if grep -q '"message":"stopping' "$dir/log.1"; then fail 'the old file goes on'; fi

# A mistake in the environment is told, with the nearest key.
if SPATE_LOG_LEVLE=debug "$spated" --config "$dir/fs/spate.toml" --server 2 2> "$dir/err"; then fail 'a misspelt variable passes'; fi
grep -q 'level' "$dir/err" || fail 'no hint at the nearest key'
