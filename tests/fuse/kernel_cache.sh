#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Mounts with attr_cache=kernel: the kernel keeps names and attributes and answers by itself. It never answers with what has changed meanwhile.
. "$(dirname "$0")/lib.sh"
export SPATE_META_SESSION_LEASE='8 s'  # of a lease a quarter
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
fails 'needs leases' "$spate" mount -p "$dir/a" -o attr_cache=kernel,noleases
mount_at a attr_cache=kernel
mount_at b attr_cache=kernel,cache=none
mount_at c "attr_cache=kernel$([ "$(id -u)" != 0 ] || echo ,allow_other)"
mount_at plain
names=yes
grep -q 'keeps attributes, but no names' "$dir/fs/log/mount.log" && names=no

supervisor() { pgrep -of "spate-mount $dir/fs/spate.toml $dir/$1( |$)"; }
python3 "$(dirname "$0")/kernel_cache.py" changes "$dir/a" "$dir/b" "$dir/c" "$dir/plain"
python3 "$(dirname "$0")/kernel_cache.py" random "$dir/a" "$dir/b" "$dir/c" "$dir/plain"
python3 "$(dirname "$0")/kernel_cache.py" busy "$dir/a" "$dir/b"
python3 "$(dirname "$0")/kernel_cache.py" race "$dir/a" "$dir/b"

# The kernel answers by itself: of 1,000 calls hardly any reaches the mount.
mount_at counted attr_cache=kernel,log="$dir/counted.log"
touch "$dir/b/there"
python3 "$(dirname "$0")/kernel_cache.py" again "$dir/counted" 1000
"$spate" umount "$dir/counted"
for _ in $(seq 100); do grep -q 'answered_from_leases=' "$dir/counted.log" && break; sleep 0.1; done  # it ends by itself
asked=$(sed -n 's/.*answered_from_leases=\([0-9]*\) asked=\([0-9]*\).*/\1 \2/p' "$dir/counted.log" | awk '{ print $1 + $2 }')
[ "$asked" -lt "$([ $names = yes ] && echo 60 || echo 3000)" ] || { echo "the kernel asked the mount $asked times"; exit 1; }

# A server restarts, and the process of a mount is replaced, stopped and killed. Each time, what has changed meanwhile is seen.
python3 "$(dirname "$0")/kernel_cache.py" restart "$dir/a" "$dir/b" \
  "kill -9 $(cut -d' ' -f1 "$dir/fs/run/server-1.pid"); '$spate' up -q --dir '$dir/fs'"
python3 "$(dirname "$0")/kernel_cache.py" restart "$dir/a" "$dir/b" "'$spate' mount --upgrade '$dir/a'"
python3 "$(dirname "$0")/kernel_cache.py" restart "$dir/a" "$dir/b" "kill -9 $(pgrep -P "$(supervisor a)")"
stopped="$(supervisor a) $(pgrep -P "$(supervisor a)")"
python3 "$(dirname "$0")/kernel_cache.py" restart "$dir/a" "$dir/b" "kill -STOP $stopped" "kill -CONT $stopped"
python3 "$(dirname "$0")/kernel_cache.py" restart "$dir/b" "$dir/c" "kill -9 $stopped"
