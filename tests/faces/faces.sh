#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# faces.sh GROUP...: the cases of each group on a local folder, the oracle, then by each face of Spate: the same lines.
# FACES chooses among: native preload fuse fuse_none; and mixed: random calls, each through a face drawn for it (mixed.py).
# FACES=named: whether every error that POSIX names for a call is among the cases (named_errors.py).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
export HOME=$dir XDG_STATE_HOME=$dir/state SPATE_FS=$dir/fs
unset SPATE_PREFIX
. "$SPATE_SOURCE/tests/integration/ports.sh"
take_ports 6
spate=$SPATE_BIN/spate
library=$SPATE_BIN/../src/capi/libspate.so
mounts=()

end() {
  local mount
  for mount in "${mounts[@]}"; do "$spate" umount -z "$mount" 2> /dev/null || true; done
  "$spate" down -q --force --dir "$dir/fs" > /dev/null 2>&1 || true
  rm -rf "$dir" "${oracle:-}"
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

# mixed: by processes of every face at the same time.
mixed() {
  local roots=(/spate/mixed)
  if [ -r /dev/fuse ] && [ -w /dev/fuse ]; then
    mount_at mixed allow_other,cache=none
    roots+=("$dir/mixed/mixed")
  fi
  mkdir -p "$oracle/mixed"
  SPATE=$spate timeout "${FACES_TIMEOUT:-1500}" python3 "$here/mixed.py" "$oracle/mixed" "$library" /mixed "${roots[@]}"
}

# The oracle is ext4 where there is one: of another file system, tmpfs say, some answers differ.
kind() { stat -f -c %T "$1"; }
oracle=
for place in "$dir" /var/tmp "$PWD" "$here"; do
  [ "$(kind "$place")" = ext2/ext3 ] && [ -w "$place" ] && oracle=$(mktemp -d "$place/spate-oracle-XXXXXX") && break
done
[ -n "$oracle" ] || { echo "the oracle is $(kind "$dir"), since no ext4 was found"; oracle=$(mktemp -d "$dir/oracle-XXXXXX"); }
chmod 755 "$oracle"

groups=("$@")
cases oracle python3 "$here/cases.py" os "$oracle" "${groups[@]}"
# named: that the cases come to every error that POSIX names; no face is asked.
[ "${FACES:-}" != named ] || { python3 "$here/named_errors.py" "$dir/oracle.lines"; exit; }
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
    mixed)
      mixed || failed=1
      continue
      ;;
  esac
  python3 "$here/compare.py" "$face" "$dir/oracle.lines" "$dir/$face.lines" || failed=1
done
exit $failed
