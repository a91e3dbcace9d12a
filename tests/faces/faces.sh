#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# faces.sh GROUP...: the cases of each group on a local folder, the oracle, then by each face of Spate: the same lines.
# FACES chooses among: native preload fuse fuse_none
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
export HOME=$dir XDG_STATE_HOME=$dir/state SPATE_FS=$dir/fs
unset SPATE_PREFIX
port=$((32400 + $$ % 360))  # below those that the system gives to outgoing connections
spate=$SPATE_BIN/spate
library=$SPATE_BIN/../src/capi/libspate.so
mounts=()

end() {
  local mount
  for mount in "${mounts[@]}"; do "$spate" umount -z "$mount" 2> /dev/null || true; done
  "$spate" down -q --dir "$dir/fs" > /dev/null 2>&1 || true
  rm -rf "$dir"
}
trap end EXIT
chmod 755 "$dir"

mount_at() {
  mounts+=("$dir/$1")
  "$spate" mount -p "$dir/$1" -o "$2"
}

# cases FACE_NAME COMMAND...: its lines into $dir/FACE_NAME.lines
cases() {
  local name=$1
  shift
  timeout "${FACES_TIMEOUT:-1500}" "$@" > "$dir/$name.lines" 2> "$dir/$name.errors" ||
    { echo "$name: ended early (status $?)"; tail -n 3 "$dir/$name.lines"; tail -n 20 "$dir/$name.errors"; exit 1; }
}

groups=("$@")
mkdir "$dir/oracle"
cases oracle python3 "$here/cases.py" os "$dir/oracle" "${groups[@]}"
"$spate" up -q --dir "$dir/fs" --io 3 --port "$port"
# Other users come, too (cases_acl.py), who may not read the key.
"$spate" down -q --dir "$dir/fs"
sed -i '/^auth = /d; s/^\[fs\]$/[fs]\nauth = "none"/' "$dir/fs/spate.toml"
"$spate" up -q --dir "$dir/fs"
chmod 755 "$dir/fs"
chmod 644 "$dir/fs/spate.toml"
failed=0
for face in ${FACES:-native preload fuse}; do
  "$spate" mkdir "spate:/$face"
  case $face in
    native) cases "$face" python3 "$here/cases.py" "$library" "/$face" "${groups[@]}" ;;
    preload) cases "$face" "$spate" run -- python3 "$here/cases.py" os "/spate/$face" "${groups[@]}" ;;
    fuse | fuse_none)
      if ! [ -r /dev/fuse ] || ! [ -w /dev/fuse ]; then echo "$face: /dev/fuse cannot be used here"; continue; fi
      [ "$face" = fuse ] && options=allow_other || options=allow_other,cache=none
      mount_at "$face" "$options"
      cases "$face" python3 "$here/cases.py" os "$dir/$face/$face" "${groups[@]}"
      ;;
  esac
  python3 "$here/compare.py" "$face" "$dir/oracle.lines" "$dir/$face.lines" || failed=1
done
exit $failed
