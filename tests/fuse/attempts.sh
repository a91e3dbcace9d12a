# SPDX-License-Identifier: Apache-2.0
# Sourced first by tests of what stays in the page cache: runs the test again, ten times at most, until it passes. A kernel
# that gives memory back early (as in virtual machines) takes pages at random, also those of local files. A mount that drops
# pages does it each time, so such a test still fails.
if [ -z "${ATTEMPT:-}" ]; then
  for ATTEMPT in $(seq 10); do
    code=0
    ATTEMPT=$ATTEMPT "$0" || code=$?
    [ $code -ne 0 ] && [ $code -ne 77 ] || exit $code
  done
  exit $code
fi
