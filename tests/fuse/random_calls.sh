#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# random_calls.sh [OPTIONS]: random calls on a mount with OPTIONS give the results that the kernel's own file system gives, while the process that serves the
# mount is killed and upgraded. Another mount sees the same tree. SPATE_SEED: the first seed; SPATE_SEEDS, SPATE_CALLS: how many.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mount_at b
mkdir "$dir/l"
first=${SPATE_SEED:-1}
killed=
for seed in $(seq "$first" $((first + ${SPATE_SEEDS:-2} - 1))); do
  mount_at m "${1:-}"
  mkdir "$dir/l/$seed" "$dir/m/$seed"
  "$SPATE_BIN/posix_folder_oracle" "$dir/l/$seed" "$dir/m/$seed" "$dir/b/$seed" "$seed" "${SPATE_CALLS:-1500}" > "$dir/said" 2>&1 &
  oracle=$!
  kills=0
  while sleep 0.1 && kill -0 $oracle 2> /dev/null; do
    if [ $kills -lt 4 ]; then  # the fifth crash within a minute ends a mount
      server=$(status m server)
      [ "${server:-0}" != 0 ] || continue  # the next one has not begun
      kill -9 "$server"
      kills=$((kills + 1))
      killed=1
    else
      "$spate" mount -q --upgrade "$dir/m" 2> "$dir/why" || grep -q 'try again' "$dir/why" || { cat "$dir/why"; exit 1; }
    fi
  done
  wait $oracle || { head -n 40 "$dir/said"; tail -5 "$dir/fs/log/mount.log"; exit 1; }
  "$spate" umount "$dir/m"
done
[ -n "$killed" ] || { echo "the calls ended before a kill"; exit 1; }
