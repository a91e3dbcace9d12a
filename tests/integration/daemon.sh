#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# spated without `spate up`: its arguments, its environment, its log file with rotation, and the socket of the service manager.
source "$(dirname "$0")/common.sh"

"$spated" --help | has '^usage: spated' || fail '--help does not print the usage'
"$spated" --version | has '^spated [0-9]' || fail '--version does not print the version'
for bad in '--server 1' '--config x --server 0' '--config x --server 1x' '--config x --server 1 more' '--nonsense'; do
  code=0
  # shellcheck disable=SC2086
  "$spated" $bad > "$dir/out" 2> "$dir/err" || code=$?
  test "$code" = 2 || fail "spated $bad ends with $code"
  grep -q '^usage: spated' "$dir/err" || fail "spated $bad does not print the usage"
done

take_ports 2
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
"$spate" down -q --dir "$dir/fs"

# A socket like that of systemd prints what it receives.
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
grep -q '"message":"serving' "$dir/log" || fail 'the log file has no JSON, or the environment wins over --set'

mv "$dir/log" "$dir/log.1"
kill -HUP "$pid"
wait_for test -e "$dir/log"
kill -TERM "$pid"
wait "$pid" || fail 'spated did not stop in order'
wait "$listener"
grep -qx STOPPING=1 "$dir/notified" || fail 'spated has not reported the stop to the service manager'
grep -q '"message":"stopping' "$dir/log" || fail 'the new file lacks a message that came after SIGHUP'
if grep -q '"message":"stopping' "$dir/log.1"; then fail 'spated still writes to the old file'; fi

# spated reports a mistake in the environment, with the nearest key.
if SPATE_LOG_LEVLE=debug "$spated" --config "$dir/fs/spate.toml" --server 2 2> "$dir/err"; then fail 'spated accepts a misspelt variable'; fi
grep -q 'level' "$dir/err" || fail 'the message does not name the nearest key'
