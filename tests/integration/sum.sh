#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `spate sum` prints the same checksums for a tree inside and outside of a file system. They are those of sha256sum, and find what has changed.
source "$(dirname "$0")/common.sh"

mkdir -p "$dir/tree/a/b"
head -c 9000000 /dev/urandom > "$dir/tree/big"
echo hello > "$dir/tree/a/b/small"
: > "$dir/tree/a/empty"
echo x > "$dir/tree/a"/$'new\nline'
echo y > "$dir/tree/a"/$'\xff\xfe'
ln -s b/small "$dir/tree/a/link"

# It works outside of any file system.
"$spate" sum "$dir/tree" > "$dir/outside"
(cd "$dir/tree" && sha256sum -c --strict --quiet "$dir/outside") || fail 'sha256sum computes other checksums'
test "$(wc -l < "$dir/outside")" = 5 || fail 'the list does not have five files'

take_ports 4
"$spate" up -q --dir "$dir/fs" --io 3 --port "$port"
"$spate" cp -q -r "$dir/tree" spate:/tree
for kind in sha256 xxh3; do
  "$spate" sum -a $kind "$dir/tree" > "$dir/outside"
  "$spate" sum -a $kind spate:/tree | cmp - "$dir/outside" || fail "the $kind inside differ from those outside"
  "$spate" sum -q -c "$dir/outside" spate:/tree > "$dir/told" || fail "$kind: --check fails"
  test ! -s "$dir/told" || fail '--quiet names good files'
done
test "$("$spate" sum -s spate:/tree | cut -d' ' -f1)" = "$("$spate" sum -s "$dir/tree" | cut -d' ' -f1)" || fail 'the sums of the two trees differ'
test "$("$spate" sum spate:/tree/a/b/small)" = "$("$spate" sum "$dir/tree/a/b/small")" || fail 'the sums of a single file differ'
"$spate" sum --json spate:/tree | python3 -c 'import json, sys; assert len(json.load(sys.stdin)) == 5' || fail 'the JSON does not have five files'

before=$("$spate" sum -s spate:/tree)
echo hellO | "$spate" put spate:/tree/a/b/small
"$spate" rm spate:/tree/a/empty
code=0
"$spate" sum -c "$dir/outside" spate:/tree > "$dir/told" 2> "$dir/err" || code=$?
test "$code" = 1 || fail "sum -c of a changed tree ends with exit code $code"
grep -qx 'a/b/small: FAILED' "$dir/told" || fail 'sum -c does not name the changed file'
grep -q '^a/empty: FAILED: .*no such file' "$dir/told" || fail 'sum -c does not name the missing file'
grep -q '1 of 5 checksums do not match' "$dir/err" || fail 'sum -c prints no summary'
test "$before" != "$("$spate" sum -s spate:/tree)" || fail 'a changed tree has the same sum'

# Two trees differ only in the target of a link or in a name.
mkdir "$dir/one" "$dir/two"
ln -s x "$dir/one/link"
ln -s y "$dir/two/link"
test "$("$spate" sum -s "$dir/one" | cut -d' ' -f1)" != "$("$spate" sum -s "$dir/two" | cut -d' ' -f1)" || fail 'the sum ignores links'
echo nonsense > "$dir/list"
if "$spate" sum -c "$dir/list" 2> /dev/null; then fail 'sum -c accepts a list without checksums'; fi
