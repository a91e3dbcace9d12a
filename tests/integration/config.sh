#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `spate config` reports mistakes with the nearest key, shows where each value comes from, and explains keys.
source "$(dirname "$0")/common.sh"

take_ports 3
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
"$spate" config check | has ': ok, 3 servers' || fail 'check does not accept a good file'
"$spate" config show | has '^strip_bytes = "1 MiB"  # default' || fail 'show does not mark a default'
"$spate" config show servers | has -E "^servers\[1\].id = 2  # .*spate.toml:[0-9]+$" || fail 'show does not name file and line'
test "$(SPATE_META_SYNC=5ms "$spate" config show meta.sync)" = 'meta.sync = "5 ms"  # environment SPATE_META_SYNC' || fail 'show does not name the variable of the environment'
SPATE_META_SYNC=5ms "$spate" config show meta.sync --set 'meta.sync=7 ms' | has '"7 ms"  # command line' || fail 'show does not name the command line'
"$spate" config show --json meta.sync | python3 -c 'import json, sys; assert json.load(sys.stdin)[0]["origin"] == "default"' || fail 'show --json does not name the default'
"$spate" config explain meta.sync | has 'SPATE_META_SYNC' || fail 'explain does not name the variable'

told() { # told TEXT COMMAND...: fails with 1 and tells TEXT
  local text=$1 code=0
  shift
  "$@" > /dev/null 2> "$dir/err" || code=$?
  test "$code" = 1 || fail "$* ends with exit code $code"
  grep -qF "$text" "$dir/err" || fail "$* prints $(cat "$dir/err")"
}
told 'did you mean "sync"' "$spate" config explain meta.snyc
told 'did you mean "sync"' "$spate" config show meta.snyc
told 'did you mean' "$spate" --set meta.snyc=1ms ls
sed 's/^\[fs\]/[fs]\nnmae = "x"/' "$dir/fs/spate.toml" > "$dir/bad.toml"
told 'did you mean "name"' "$spate" config check "$dir/bad.toml"
# check finds what servers refuse when they start.
for change in 's|^# level = .*|level = "nonsense"|' "s|^server_key_file = .*|server_key_file = \"$dir/gone\"|" 's|^urls = .*127.0.0.1:\([0-9]*\)".*|urls = ["tcp://localhost:1"]|' 's|server-3/target-0|server-2/target-0|'; do
  sed "$change" "$dir/fs/spate.toml" > "$dir/bad.toml"
  cmp -s "$dir/fs/spate.toml" "$dir/bad.toml" && fail "$change changes nothing"
  code=0
  "$spate" config check "$dir/bad.toml" > "$dir/told" 2>&1 || code=$?
  test "$code" = 1 || fail "check accepts $change: $(cat "$dir/told")"
done
chmod 644 "$dir/fs/keys/client.key"
code=0
"$spate" config check > "$dir/told" || code=$?
test "$code" = 1 || fail 'check accepts a key that everybody can read'
grep -q 'chmod 600' "$dir/told" || fail 'the message does not say what to do'
chmod 600 "$dir/fs/keys/client.key"
code=0
"$spate" config nonsense 2> /dev/null || code=$?
test "$code" = 2 || fail "an unknown action ends with exit code $code"
