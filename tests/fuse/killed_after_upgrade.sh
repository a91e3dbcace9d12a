#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs are killed while their calls wait for the meta server. The calls are on files that an earlier process of the mount
# opened. The process that serves the mount survives that.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mount_at one nogather,nodelegate  # otherwise some of the calls would wait for nobody
meta=$(cut -d' ' -f1 "$dir/fs/run/server-1.pid")
trap 'kill -CONT "$meta" 2> /dev/null || true; end' EXIT
timeout 60 python3 "$(dirname "$0")/killed_after_upgrade.py" "$dir/one" "$spate" "$meta"
# An upgrade waits for the calls of the killed programs.
"$spate" mount --upgrade "$dir/one"
if grep 'the server of the mount has gone' "$dir/fs/log/mount.log"; then exit 1; fi
