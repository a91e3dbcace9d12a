#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A new server process of a mount sends what the killed one has left. If the servers are gone and the directory is unmounted, it ends and names what is lost.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mount_at gathers nodelegate
mount_at queues nogather
supervisors=("$(status gathers supervisor)" "$(status queues supervisor)")
servers=("$(status gathers server)" "$(status queues server)")
# Until the mounts have learnt what they need: how much room there is, and numbers for new files.
mkdir "$dir/queues/d"
# The shell itself would close a copy of the descriptor after each write, and so send it.
coproc writer { exec python3 -uc 'import os, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
folder = os.open(sys.argv[2], os.O_RDONLY)
for line in sys.stdin:
    kind, name = line.split()
    print(os.write(fd, line.encode()) if kind == "write" else os.mkdir(name, dir_fd=folder))' "$dir/gathers/f" "$dir/queues/d"; }
ask() { echo "$1 $2" >&"${writer[1]}"; read -r <&"${writer[0]}"; }
gathers() { local before; before=$(status gathers gathered_writes); ask write more; [ "$(status gathers gathered_writes)" -gt "$before" ]; }
queues() { local before; before=$(status queues queued_changes); ask mkdir "$RANDOM$RANDOM"; [ "$(status queues queued_changes)" -gt "$before" ]; }
mapfile -t daemons < <(awk '{ print $1 }' "$dir"/fs/run/server-*.pid)
wait_until queues
wait_until gathers
ask write lost
kill -9 "${daemons[@]}"
ask mkdir lost
kill -9 "${servers[@]}"
goes_on() { local pid; pid=$(status "$1" server); [ -n "$pid" ] && [ "$pid" != 0 ] && [ "$pid" != "$2" ]; }
wait_until goes_on gathers "${servers[0]}"
wait_until goes_on queues "${servers[1]}"
left=("$(status gathers server)" "$(status queues server)")
has_device() { ls -l "/proc/$1/fd" | grep -q /dev/fuse; }
for pid in "${left[@]}"; do wait_until has_device "$pid"; done
sleep 2  # until they wait for the daemons
# The file is still open, so it needs force.
umount -fl "$dir/gathers"
umount -fl "$dir/queues"
kill "$writer_PID"
for pid in "${left[@]}" "${supervisors[@]}"; do wait_until gone "$pid"; done
grep -q 'gathered writes are lost path="f" ' "$dir/fs/log/mount.log"
grep -q 'a change that was answered has failed .*name="lost"' "$dir/fs/log/mount.log"
