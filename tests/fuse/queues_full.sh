#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All workers of a mount wait for servers that stand still, and more calls wait in the kernel. Then the mount is upgraded, or its process is
# killed. When the servers go on, each call takes effect once.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mount_at a nogather,nodelegate,memory=16MiB  # otherwise many of the calls would wait for nobody
mount_at b
mkdir "$dir/new"
cp "$SPATE_BIN/spate" "$SPATE_BIN/spate-mount" "$dir/new"
servers=$(cut -d' ' -f1 "$dir"/fs/run/server-?.pid)
calls=32

# Each thread makes one call in a directory of its own, because the kernel serializes calls in one directory or on one file.
cat > "$dir/caller.py" <<'PROGRAM'
import os
import sys
import threading
import time

folder, outside, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])


def prepare(number):
    at = f"{folder}/{number}"
    os.mkdir(at)
    os.close(os.open(f"{at}/from", os.O_CREAT))
    log = os.open(f"{at}/log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(log, b"first\n")
    data = os.open(f"{at}/data", os.O_CREAT | os.O_WRONLY)
    return [lambda: os.close(os.open(f"{at}/made", os.O_CREAT | os.O_EXCL)),
            lambda: os.rename(f"{at}/from", f"{at}/to"),
            lambda: os.write(log, b"second\n"),
            lambda: os.pwrite(data, b"data\n", 5)][number % 4]


threads = [threading.Thread(target=call) for call in [prepare(number) for number in range(calls)]]
threading.excepthook = lambda what: (print(what.exc_value, file=sys.stderr, flush=True), os._exit(1))
open(f"{outside}/ready", "w").close()
while not os.path.exists(f"{outside}/go"):
    time.sleep(0.01)
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
PROGRAM

most=$(status a workers_at_most)
[ "$most" -lt "$calls" ]
all_wait() { [ "$(status a workers_with_request)" -eq "$most" ]; }
# calls_wait FOLDER: makes the calls of a program in that folder wait for the servers. The mount holds as many of them as it can, and the kernel
# holds the others.
calls_wait() {
  rm -f "$dir/ready" "$dir/go"
  mkdir "$dir/b/$1"
  python3 "$dir/caller.py" "$dir/a/$1" "$dir" "$calls" &
  program=$!
  wait_until test -e "$dir/ready"
  # shellcheck disable=SC2086
  stop $servers
  touch "$dir/go"
  wait_until all_wait
}
# each_once FOLDER: lets the servers go on, and checks that all calls succeed and that each takes effect once.
each_once() {
  # shellcheck disable=SC2086
  kill -CONT $servers
  wait "$program"
  python3 - "$dir/b/$1" "$calls" <<'PROGRAM'
import os
import sys

folder, calls = sys.argv[1], int(sys.argv[2])
for i in range(calls):
    at = f"{folder}/{i}"
    names = sorted(os.listdir(at))
    wanted = ["data", "to" if i % 4 == 1 else "from", "log"] + (["made"] if i % 4 == 0 else [])
    assert names == sorted(wanted), (i, names)
    log, data = open(f"{at}/log", "rb").read(), open(f"{at}/data", "rb").read()
    assert log == b"first\n" + (b"second\n" if i % 4 == 2 else b""), (i, log)
    assert data == (b"\0" * 5 + b"data\n" if i % 4 == 3 else b""), (i, data)
PROGRAM
}

calls_wait upgraded
"$dir/new/spate" mount --upgrade "$dir/a"
equal "$(readlink "/proc/$(status a server)/exe")" "$dir/new/spate-mount"
each_once upgraded

calls_wait killed
old=$(status a server)
kill -9 "$old"
other_serves() { [ "$(status a server)" != "$old" ] && all_wait; }
wait_until other_serves
each_once killed
equal "$(status a crashes)" 1
