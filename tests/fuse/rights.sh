#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An ordinary user mounts. Every right is checked, although the kernel leaves that to the servers.
[ "${APART:-}" ] || exec env APART=1 unshare -m --propagation private "$0" # /dev/fuse may be for root only
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || { echo 'skipped: needs root, to be two users'; exit 77; }
command -v setpriv fusermount3 > /dev/null || { echo 'skipped: needs setpriv and fusermount3'; exit 77; }
mknod -m 666 "$dir/fuse" c 10 229 && mount --bind "$dir/fuse" /dev/fuse || { echo 'skipped: no device can be made here'; exit 77; }
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
"$spate" down -q --dir "$dir/fs"
sed -i '/^auth = /d; s/^\[fs\]$/[fs]\nauth = "none"/' "$dir/fs/spate.toml"
"$spate" up -q --dir "$dir/fs"
chmod 755 "$dir" "$dir/fs" && chmod 644 "$dir/fs/spate.toml"
mount_at m
cp "$SPATE_BIN/spate" "$SPATE_BIN/spate-mount" "$dir" # the build may lie where others may not look
mkdir "$dir/home" "$dir/u" && chown 65534:65534 "$dir/home" "$dir/u"
as_user() { setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$dir/home" XDG_STATE_HOME="$dir/home" PATH="$dir:$PATH" "$@"; }
user() { as_user env -C "$dir/u" "$@"; }
as_user spate mount -p "$dir/u" > "$dir/said" 2>&1 || { echo "skipped: fusermount3 does not mount here: $(cat "$dir/said")"; exit 77; }
mounts+=("$dir/u")

(
  cd "$dir/m"
  mkdir open shut names-only && chmod 777 open && chmod 700 shut && chmod 711 names-only
  echo secret > shut/file && echo x > names-only/file && cp /bin/true others-program
  echo all > all && chmod 644 all && chmod 600 shut/file && chmod 744 others-program
)
for again in 1 2; do # asked the servers, then from what is kept
  fails 'Permission denied' user cat shut/file
  fails 'Permission denied' user ls names-only
  fails "can't cd" user sh -c 'cd shut'
  fails 'Permission denied' user sh -c 'echo > all'
  fails 'Permission denied' user touch names-only/new
  fails 'not permitted' user chmod 777 all
  fails 'Permission denied' user ./others-program
  user test -r all && ! user test -w all && ! user test -x all && user test -x open && ! user test -r shut
  equal "$(user cat all names-only/file)" $'all\nx'
done
user sh -c 'echo mine > open/mine && chmod 200 open/mine' && equal "$(cat "$dir/m/open/mine")" mine
equal "$(stat -c %u "$dir/m/open/mine")" 65534
fails 'Permission denied' user cat open/mine
# A right that is taken away is gone at once.
chmod 600 "$dir/m/all"
fails 'Permission denied' user cat all
as_user spate umount "$dir/u"
