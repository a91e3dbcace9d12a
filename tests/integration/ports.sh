# SPDX-License-Identifier: Apache-2.0
# Sourced. take_ports COUNT sets $port to the first of COUNT <= 20 ports in a row that nobody listens on. They belong to this
# script and to the processes that it starts until all of them have ended, even while no server listens there. A lock on a
# file of the range, as in cluster.py, keeps other tests away, also those of another run.
take_ports() {
  local count=$1 folder=/tmp/spate-test-ports-$UID lock i
  mkdir -p -m 700 "$folder"
  for _ in $(seq 200); do
    port=$((RANDOM % 1000))
    exec {lock}> "$folder/$port"
    if flock -n "$lock"; then
      port=$((10000 + port * 20))
      for ((i = 0; i < count; ++i)); do
        if (exec 3<> "/dev/tcp/127.0.0.1/$((port + i))") 2> /dev/null; then break; fi
      done
      [ "$i" -lt "$count" ] || return 0
    fi
    exec {lock}>&-
  done
  echo 'no free ports' >&2
  return 1
}
