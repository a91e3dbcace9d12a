#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cut_off.sh [MOUNT-OPTIONS]
# A machine with a mount is cut off from all servers while its programs write, hold locks and keep names under leases. When its session has
# expired, others go on: they get the locks, change what it kept, and find everything that was synced. When the machine comes back, its programs
# get errors if they write to files that they had locked, and these writes have no effect.
if [ -z "${SPATE_CUT_OFF:-}" ]; then
  [ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
  probe='ip link set lo up && ip link add v0 type veth peer name v1 && mount -t tmpfs t /mnt'
  unshare --net --mount sh -ec "$probe" 2> /dev/null || { echo "skipped: no network namespace can be made here"; exit 77; }
  SPATE_CUT_OFF=1 exec unshare --net --mount bash "$0" "$@"
fi
umount -l -a -t fuse.spate || true  # a copy of another test's mount would keep that mount alive
. "$(dirname "$0")/lib.sh"
ip link set lo up

# The other machine is a network namespace. Its processes share everything else with this machine.
unshare --net sleep infinity &
other=$!
end_of_both() {
  kill -9 "$other" "${writers[@]}" 2> /dev/null || true
  end
}
writers=()
trap end_of_both EXIT
there() { nsenter --target "$other" --net "$@"; }
is_apart() { [ "$(readlink "/proc/$other/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
wait_until is_apart
ip link add here type veth peer name eth0 netns "$other"
ip address add 10.1.0.1/24 dev here
ip link set here up
there sh -ec 'ip link set lo up; ip address add 10.1.0.2/24 dev eth0; ip link set eth0 up'

export SPATE_META_SESSION_LEASE='4 s'
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port" --tcp-only
"$spate" down -q --dir "$dir/fs"
sed -i 's/127\.0\.0\.1/10.1.0.1/g' "$dir/fs/spate.toml"
"$spate" up -q --dir "$dir/fs"
mount_at b
mounts+=("$dir/a")
there "$spate" mount -p "$dir/a" ${1:+-o "$1"}

# Each process writes, syncs now and then, and records outside of the mount what was answered.
work() {
  exec python3 - "$dir/a" "$dir/told$1" "$1" <<'PROGRAM'
import fcntl
import os
import sys

folder, told_path, number = sys.argv[1:]
told = open(told_path, "w", buffering=1)
data = os.open(f"{folder}/data{number}", os.O_CREAT | os.O_RDWR)
fcntl.flock(data, fcntl.LOCK_EX)
log = os.open(f"{folder}/log{number}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
try:
    for i in range(1000000):
        os.pwrite(data, b"%15d\n" % i, 16 * i)
        os.write(log, b"%15d\n" % i)
        os.close(os.open(f"{folder}/name{number}.{i}", os.O_CREAT | os.O_EXCL))
        if i % 10 == 9:
            os.fsync(data)
            os.fsync(log)
            told.write(f"{i + 1}\n")
except OSError as error:
    told.write(f"failed {error.errno}\n")
PROGRAM
}
for i in 1 2; do
  work $i &
  writers+=($!)
done
has_begun() { [ "$(cat "$dir"/told? 2> /dev/null | wc -l)" -gt 20 ]; }
wait_until has_begun
ls -l "$dir/a" > /dev/null
if [ -z "${1:-}" ]; then
  has_gathered() { [ "$(status a gather_memory_bytes)" -gt 0 ]; }
  wait_until has_gathered
fi
ip link set here down

# Others get the locks when the session has expired and the io servers refuse it.
for i in 1 2; do timeout 60 flock "$dir/b/data$i" true; done
python3 - "$dir" <<'PROGRAM'
import os
import sys

where = sys.argv[1]
for number in "12":
    told = [line for line in open(f"{where}/told{number}") if line.endswith("\n")]
    synced = int(told[-1])
    assert synced > 0, number
    whole = b"".join(b"%15d\n" % i for i in range(synced + 11))
    for name in "data", "log":
        found = open(f"{where}/b/{name}{number}", "rb").read()
        assert found[:16 * synced] == whole[:16 * synced], (name, number, synced, len(found))
        assert whole.startswith(found), (name, number, len(found))
        assert os.stat(f"{where}/b/{name}{number}").st_size == len(found), (name, number)
    names = {name for name in os.listdir(f"{where}/b") if name.startswith(f"name{number}.")}
    assert names in [{f"name{number}.{i}" for i in range(count)} for count in range(synced, synced + 11)], (number, synced, len(names))
    # Others change what the lost machine had open and under leases.
    with open(f"{where}/b/data{number}", "r+b") as file:
        file.write(b"by another\n")
        file.truncate(11)
    os.rename(f"{where}/b/log{number}", f"{where}/b/moved{number}")
    os.unlink(f"{where}/b/name{number}.0")
PROGRAM
ip link set here up
has_failed() { grep -q failed "$dir/told1" && grep -q failed "$dir/told2"; }
wait_until has_failed
if [ -z "${1:-}" ]; then
  [ "$(status a gathered_bytes_lost)" -gt 0 ]
  grep -q 'gathered writes are lost path="[a-z]*[12]" .* error=' "$dir/fs/log/mount.log"
fi
for i in 1 2; do
  equal "$(cat "$dir/b/data$i")" "by another"
  equal "$(cat "$dir/a/data$i")" "by another"
  equal "$(tail -n 1 "$dir/told$i")" "failed 5"
  # An append that was under way then may have reached the end of the file when the machine was back.
  awk '$1 != NR - 1 { print "line", NR, "is", $1; exit 1 }' "$dir/b/moved$i"
done
