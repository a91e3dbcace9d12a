#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Supervisor and server of a mount are killed together while programs write, append, create and rename. Everything that was acknowledged is
# there once. Other mounts go on when the session has expired, and the directory can be mounted again.
. "$(dirname "$0")/lib.sh"
export SPATE_META_SESSION_LEASE='4 s'
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mount_at a nogather,nodelegate  # otherwise the latest writes and changes are lost with both
mount_at b

# work NUMBER: works until a call fails. It records what was acknowledged in a file outside of the mount.
work() {
  python3 - "$dir/a" "$dir/told$1" "$1" <<'PROGRAM'
import os
import sys

folder, told_path, number = sys.argv[1:]
told = open(told_path, "w", buffering=1)
log = os.open(f"{folder}/log{number}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
data = os.open(f"{folder}/data{number}", os.O_CREAT | os.O_WRONLY)
try:
    for i in range(1000000):
        os.close(os.open(f"{folder}/new{number}.{i}", os.O_CREAT | os.O_EXCL))
        os.rename(f"{folder}/new{number}.{i}", f"{folder}/done{number}.{i}")
        os.pwrite(data, b"%15d\n" % i, 16 * i)
        os.write(log, b"%d\n" % i)
        told.write(f"{i}\n")
except OSError:
    pass
PROGRAM
}
for i in 1 2 3; do work $i & done
has_begun() { [ "$(cat "$dir"/told? 2> /dev/null | wc -l)" -gt 300 ]; }
wait_until has_begun
supervisor=$(status a supervisor)
kill -9 "$supervisor" "$(status a server)"
wait %1 %2 %3

python3 - "$dir" <<'PROGRAM'
import os
import sys

where = sys.argv[1]
for number in "123":
    told = sum(1 for _ in open(f"{where}/told{number}"))
    assert told > 0, number
    lines = open(f"{where}/b/log{number}").read().split()
    assert lines in ([str(i) for i in range(told)], [str(i) for i in range(told + 1)]), (number, told, lines[-3:])
    data = open(f"{where}/b/data{number}", "rb").read()
    assert data[:16 * told] == b"".join(b"%15d\n" % i for i in range(told)), number
    names = [name for name in os.listdir(f"{where}/b") if name.startswith(f"done{number}.")]
    assert len(names) in (told, told + 1), (number, told, len(names))
    for i in range(told):
        assert os.path.exists(f"{where}/b/done{number}.{i}"), (number, i)
PROGRAM

# When the session of the dead mount has expired, others get the files that it had open for writing and under leases.
timeout 60 sh -c "echo more >> $dir/b/log1 && rm $dir/b/data1"
"$spate" umount -z "$dir/a"
mount_at a
equal "$(tail -n 1 "$dir/a/log1")" more
