# SPDX-License-Identifier: Apache-2.0
# Runs Python's own tests of files, with their folders in the tree: those of shutil, glob, tempfile, fileinput and more. Tests that also
# fail on a local folder do not count. PYTHON_TESTS chooses tests.
# needs: python3
# seconds: 1100
python3 -c 'import test.test_shutil, test.support' 2> "$local/said" || skip "python needs the package test"
modules=${PYTHON_TESTS:-test_shutil test_glob test_tempfile test_filecmp test_fileinput test_file test_mmap test_fcntl}
[ "$FRONTEND" != mount ] || [ -n "${PYTHON_TESTS:-}" ] || modules+=" test_os test_posix test_io"
# docs/preload.md says that the preload library does not support these: writable shared maps, splice, F_NOTIFY.
[ "$FRONTEND" = preload ] && lacking='test_mmap|test_splice|test_fcntl_64_bit' || lacking='^$'

# failing FOLDER MODULE: prints which of its tests fail, one a line.
failing() {
  (cd "$1" && TMPDIR=$1 timeout 150 python3 -m unittest -v "test.$2" 2>&1 < /dev/null || true) > "$local/run"
  grep -q '^Ran [0-9]* test' "$local/run" || { echo "$2 did not end in $1"; tail -n 5 "$local/run"; }
  sed -n 's/^\(FAIL\|ERROR\): //p' "$local/run" | LC_ALL=C sort -u
}

mkdir "$local/here"
for module in $modules; do
  failing "$work" "$module" > "$local/found" && cp "$local/run" "$local/$module"
  [ ! -s "$local/found" ] || failing "$local/here" "$module" > "$local/known"
  [ ! -s "$local/found" ] || LC_ALL=C comm -13 "$local/known" "$local/found" | { grep -vE "$lacking" || true; } >> "$local/new"
done
[ ! -s "$local/new" ] || { cat "$local/new"; exit 1; }
