#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# frontends.sh GROUP...: runs the cases of each group on a local folder, which is the oracle, and then by each front end of Spate. All must print the
# same lines.
# FRONTENDS chooses among native, preload, fuse and fuse_none. mixed makes random calls, each through a front end that is drawn for it (mixed.py).
# FRONTENDS=named checks that every error that POSIX names for a call is among the cases (named_errors.py).
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

# cases FRONTEND_NAME COMMAND...: writes the lines of the command to $dir/FRONTEND_NAME.lines.
cases() {
  local name=$1
  shift
  timeout "${FRONTENDS_TIMEOUT:-1500}" "$@" > "$dir/$name.lines" 2> "$dir/$name.errors" ||
    { echo "$name: ended early (status $?)"; tail -n 3 "$dir/$name.lines"; tail -n 20 "$dir/$name.errors"; exit 1; }
}

# mixed: processes of every front end work at the same time.
mixed() {
  local roots=(/spate/mixed)
  if [ -r /dev/fuse ] && [ -w /dev/fuse ]; then
    mount_at mixed allow_other,cache=none
    roots+=("$dir/mixed/mixed")
  fi
  mkdir -p "$oracle/mixed"
  SPATE=$spate timeout "${FRONTENDS_TIMEOUT:-1500}" python3 "$here/mixed.py" "$oracle/mixed" "$library" /mixed "${roots[@]}"
}

# The oracle is on ext4 if there is one. Some answers of other file systems, such as tmpfs, differ.
kind() { stat -f -c %T "$1"; }
oracle=
for place in "$dir" /var/tmp "$PWD" "$here"; do
  [ "$(kind "$place")" = ext2/ext3 ] && [ -w "$place" ] && oracle=$(mktemp -d "$place/spate-oracle-XXXXXX") && break
done
[ -n "$oracle" ] || { echo "the oracle is $(kind "$dir"), since no ext4 was found"; oracle=$(mktemp -d "$dir/oracle-XXXXXX"); }
chmod 755 "$oracle"

groups=("$@")
cases oracle python3 "$here/cases.py" os "$oracle" "${groups[@]}"
# named: checks that the cases meet every error that POSIX names. It uses no front end.
[ "${FRONTENDS:-}" != named ] || { python3 "$here/named_errors.py" "$dir/oracle.lines"; exit; }
"$spate" up -q --dir "$dir/fs" --io 3 --port "$port"
# Other users, who may not read the key, also use the file system (cases_acl.py).
"$spate" down -q --dir "$dir/fs"
sed -i '/^auth = /d; s/^\[fs\]$/[fs]\nauth = "none"/' "$dir/fs/spate.toml"
"$spate" up -q --dir "$dir/fs"
chmod 755 "$dir/fs"
chmod 644 "$dir/fs/spate.toml"
failed=0
for frontend in ${FRONTENDS:-native preload fuse}; do
  "$spate" mkdir "spate:/$frontend"
  case $frontend in
    native) cases "$frontend" python3 "$here/cases.py" "$library" "/$frontend" "${groups[@]}" ;;
    preload) cases "$frontend" "$spate" run -- python3 "$here/cases.py" os "/spate/$frontend" "${groups[@]}" ;;
    fuse | fuse_none)
      if ! [ -r /dev/fuse ] || ! [ -w /dev/fuse ]; then echo "$frontend: /dev/fuse cannot be used here"; continue; fi
      [ "$frontend" = fuse ] && options=allow_other || options=allow_other,cache=none
      mount_at "$frontend" "$options"
      cases "$frontend" python3 "$here/cases.py" os "$dir/$frontend/$frontend" "${groups[@]}"
      ;;
    mixed)
      mixed || failed=1
      continue
      ;;
  esac
  python3 "$here/compare.py" "$frontend" "$dir/oracle.lines" "$dir/$frontend.lines" || failed=1
done
exit $failed
