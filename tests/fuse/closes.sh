#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Files that are closed while the meta server does not answer: no reader of the kernel's requests waits for it, so none is added.
. "$(dirname "$0")/lib.sh"
files=20
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mount_at kept threads=2
mount_at asked threads=2,noleases # each close waits there: what the count would show
for i in $(seq $files); do echo text > "$dir/kept/$i"; done

# readers NAME: threads of the process that serves the mount.
readers() { ls "/proc/$(pgrep -P "$(pgrep -of "spate-mount $dir/fs/spate.toml $dir/$1( |$)")")/task" | wc -l; }

# added NAME: how many more there are while all files are being closed and the meta server stands still.
added() {
  local i before
  for i in $(seq $files); do eval "exec $((i + 20))< \"\$dir/$1/$i\""; done
  before=$(readers "$1")
  kill -STOP "$meta"
  for i in $(seq $files); do eval "exec $((i + 20))<&-"; done
  sleep 1
  echo $(($(readers "$1") - before))
  kill -CONT "$meta"
}

meta=$(cut -d' ' -f1 "$dir/fs/run/server-1.pid")
more=$(added kept)
[ "$more" -le 1 ] || { echo "$more readers were added: closes hold them"; exit 1; }
more=$(added asked)
[ "$more" -ge 5 ] || { echo "$more readers were added without leases: the count shows nothing"; exit 1; }
# All of them have been told in the end.
rm "$dir"/kept/*
"$spate" fsck > /dev/null
