# SPDX-License-Identifier: Apache-2.0
# What Python's own tests say of files: those of os, shutil, glob, tempfile, fileinput, zipfile, dbm and more, with all of their
# folders in the tree. A test that fails on a local folder, too, says nothing and is left out.
# needs: python3
# seconds: 900
python3 -c 'import test.test_shutil, test.support' 2> "$local/said" || skip "python: the package test is not there"
modules="test_shutil test_glob test_fnmatch test_tempfile test_fileinput test_filecmp test_file test_largefile test_mailbox test_posixpath test_pathlib test_tarfile test_zipfile test_os test_posix test_fcntl test_mmap"
failing() {
  (cd "$1" && TMPDIR=$1 timeout 400 python3 -m unittest -v $(printf 'test.%s ' $modules) 2>&1 < /dev/null || true) > "$local/run"
  sed -n 's/^\(FAIL\|ERROR\): //p' "$local/run" | LC_ALL=C sort -u
}
mkdir "$local/here" && failing "$local/here" > "$local/expected"
grep -q '^Ran [0-9]\{3,\} tests' "$local/run"
failing "$work" > "$local/found"
tail -n 3 "$local/run"
LC_ALL=C comm -13 "$local/expected" "$local/found"
