#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `spate` explains itself, wrong command lines have the right exit codes, and bash completes command lines.
source "$(dirname "$0")/common.sh"

"$spate" --version | has -E -x 'spate [0-9]+\.[0-9]+\.[0-9]+' || fail '--version does not print the version'
"$spate" help > "$dir/help"
grep -q '^Exit codes: 0 success' "$dir/help" || fail 'the help does not list the exit codes'
commands=$(sed -nE 's/^  ([a-z]+) {2,}.*/\1/p' "$dir/help")
test "$(wc -w <<< "$commands")" -ge 20 || fail 'the help lists too few commands'
for command in $commands; do
  [ "$command" = help ] && continue
  "$spate" help "$command" | has "^Usage: spate $command" || fail "help $command does not print the usage of $command"
done
for bad in '' 'nonsense' 'ls --nonsense' 'stat' 'sum'; do
  code=0
  # shellcheck disable=SC2086
  "$spate" $bad > "$dir/out" 2> "$dir/err" || code=$?
  test "$code" = 2 || fail "spate $bad ends with $code"
  test -s "$dir/err" || fail "spate $bad says nothing"
done
# A message about a wrong command line is one line. It names the command and the help.
{ "$spate" ls --nonsense 2>&1 || true; } | has -x 'spate: ls: .*--nonsense; `spate help ls` tells more' || fail 'the message about an unknown option is wrong'
{ "$spate" --json cp 2>&1 || true; } | has -x 'spate: cp: PATH is required; `spate help cp` tells more' || fail 'the message about a missing argument is wrong'
code=0
"$spate" ls 2> "$dir/err" || code=$?
test "$code" = 1 || fail "ls without a file system ends with exit code $code"
grep -q 'spate up' "$dir/err" || fail 'the message does not say what to do'
# The file system is gone. The message is the same, whichever way it was named.
mkdir -p "$dir/gone" "$XDG_STATE_HOME/spate"
echo "$dir/gone/spate.toml" > "$XDG_STATE_HOME/spate/current"
for gone in 'ls' 'down' "--fs $dir/gone ls" "down --dir $dir/gone"; do
  # shellcheck disable=SC2086
  { "$spate" $gone 2>&1 || true; } | has -F "there is no $dir/gone/spate.toml; \`spate up --dir $dir/gone\` makes" || fail "spate $gone does not say what to do"
done
rm "$XDG_STATE_HOME/spate/current"

take_ports 2
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
"$spate" mkdir 'spate:/dir one' spate:/dir2
: | "$spate" put spate:/dir2/file
# JSON stays valid, whatever bytes a name has.
: | "$spate" put $'spate:/dir2/\xff\xfe'
"$spate" ls --json spate:/ spate:/dir2 | python3 -c '
import json, sys
assert [e["path"] for e in json.load(sys.stdin)] == ["spate:/dir one", "spate:/dir2", "spate:/dir2/file", "spate:/dir2/\\xff\\xfe"]' || fail 'ls --json prints something else'
"$spate" tree --json | python3 -c 'import json, sys; assert [e["name"] for e in json.load(sys.stdin)["entries"]] == ["dir one", "dir2"]' || fail 'tree --json prints something else'
"$spate" rm $'spate:/dir2/\xff\xfe'

# No byte of a name controls the terminal.
{ "$spate" cat $'spate:/no\x1b[31m' 2>&1 || true; } | has -F 'spate:/no\x1b[31m: no such file' || fail 'a message has control characters'

# Brackets are part of a name. Only the shell makes lists of them.
(cd "$dir" && touch '[a]' '[a,b]' && "$spate" cp '[a]' '[a,b]' spate:/dir2/)
test "$("$spate" ls spate:/dir2 | sort | tr '\n' ' ')" = '[a,b] [a] file ' || fail "ls of names with brackets prints $("$spate" ls spate:/dir2)"
{ "$spate" --fs '[fs]' ls 2>&1 || true; } | has -F -- '--fs names [fs],' || fail 'a message shows a name with brackets in another way'
"$spate" rm 'spate:/dir2/[a]' 'spate:/dir2/[a,b]'

source "$SPATE_SOURCE/src/tools/spate.bash"
compopt() { :; }
completed() { # completed LINE EXPECTED...: what bash is offered
  COMP_LINE=$1 COMP_POINT=${#1}
  shift
  _spate
  test "${COMPREPLY[*]}" = "$*" || fail "'$COMP_LINE' is completed by: ${COMPREPLY[*]}"
}
export PATH=$SPATE_BIN:$PATH
completed 'spate setst' setstripe
completed 'spate config ex' explain
completed 'spate sum --alg' --algorithm
completed 'spate sum -a x' xxh3
completed 'spate ls spate:/d' '/dir\ one/ /dir2/'
completed 'spate cp spate:/dir2/' /dir2/file
completed 'spate cp spa' spate:/
completed 'spate ls spate:/none/'
completed 'spate ls "spate:/dir o' 'spate:/dir one/'
completed 'spate ls spate:/dir\ o' '/dir\ one/'
"$spate" mkdir 'spate:/dir one/with blank'
completed 'spate ls spate:/dir\ one/' '/dir\ one/with\ blank/'
completed 'spate config explain meta.sy' meta.sync
completed 'spate ls --set meta.sy' meta.sync=
completed 'spate mount -o ro,cache=w' 'ro\,cache=writeback'
"$spate" complete -- ls --fs "$dir" | has -Fx "$dir/fs/spate.toml" || fail 'completion does not offer the known file systems'
"$spate" complete -- down --dir "$dir" | has -Fx "$dir/fs" || fail 'completion does not offer the known folders'
# The mount accepts each option that completion offers.
for option in $("$spate" complete -- mount -o '' | sed 's/=$//; s/=.*//' | sort -u); do
  has -w "$option" < "$SPATE_SOURCE/docs/mount.md" || fail "docs/mount.md does not know the option $option"
done

# A hostile name does no harm when it is shown.
hostile=$(printf 'red\033[31m')
"$spate" touch "spate:/dir2/$hostile"
completed 'spate ls spate:/dir2/' /dir2/file
if script -qec "'$spate' sum 'spate:/dir2/$hostile'" /dev/null | has "$(printf '\033')"; then fail 'sum sends an escape sequence to the terminal'; fi
"$spate" sum "spate:/dir2/$hostile" | has -F "$hostile" || fail 'the list of checksums shows another name'
"$spate" rm "spate:/dir2/$hostile"
