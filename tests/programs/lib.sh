# SPDX-License-Identifier: Apache-2.0
# lib.sh SCRIPT: runs the script in the new folder $work, with these functions. An error ends it and prints the line at fault.
set -Eeuo pipefail
trap 'echo "${BASH_SOURCE[0]##*/}:$LINENO: status $?: $BASH_COMMAND"' ERR
mkdir "$work"
cd "$work"

skip() { echo "skipped: $*"; exit 77; }

# equal WHAT WANTED: checks that two strings are equal.
equal() { [ "$1" = "$2" ] || { echo "is \"$1\", should be \"$2\""; return 1; }; }

# Makes text files as a user has them: a few hundred, or some dozens with QUICK.
sources=("$SPATE_SOURCE/src/log" "$SPATE_SOURCE/docs")
[ -n "${QUICK:-}" ] || sources+=("$SPATE_SOURCE"/src/{base,bmi,client,server,trove})

# source_tree: makes them in $local/source, with what else a tree has: links, empty files, modes, an odd name.
source_tree() {
  mkdir "$local/source"
  cp -r "${sources[@]}" "$local/source"
  mkdir "$local/source/empty" && : > "$local/source/nothing"
  ln -s log/README.md "$local/source/link" && ln -s nowhere "$local/source/dangling"
  ln "$local/source/nothing" "$local/source/second name"
  chmod 750 "$local/source/docs" && chmod 600 "$local/source/docs/config.md"
  head -c 3000001 /dev/urandom > "$local/source/$(printf 'odd \n\303\251\377')"
}

# shellcheck source=/dev/null
. "$1"
