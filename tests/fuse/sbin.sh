# SPDX-License-Identifier: Apache-2.0
# Sourced after lib.sh. Enters a mount namespace of its own, which has the helpers that mount(8) calls.
if [ ! -e /sbin/mount.spate ] || [ ! -e /sbin/mount.fuse.spate ]; then
  sbin=$(realpath /sbin)
  mkdir "$dir/upper" "$dir/work" && mount -t overlay overlay -o "lowerdir=$sbin,upperdir=$dir/upper,workdir=$dir/work" "$sbin" ||
    { echo 'skipped: no link can be made in /sbin here'; exit 77; }
  for name in mount.spate mount.fuse.spate; do ln -sf "$SPATE_BIN/spate-mount" "$sbin/$name"; done
fi
