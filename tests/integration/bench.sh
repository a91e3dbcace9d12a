#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `spate bench` measures every kind of work and leaves nothing behind, not even after Ctrl-C.
source "$(dirname "$0")/common.sh"

take_ports 3
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
"$spate" bench --json --size 8MiB --request 64KiB --files 60 --tasks 3 > "$dir/report"
python3 - "$dir/report" <<'P'
import json, sys
report = json.load(open(sys.argv[1]))
results = {r["name"]: r for r in report["results"]}
assert list(results) == ["write", "read", "random read 4 KiB", "create", "stat", "unlink"], list(results)
for r in results.values():
    assert r["value"] > 0 and r["seconds"] > 0, r
amounts = {name: r["value"] * r["seconds"] for name, r in results.items()}
expected = {"write": 0.008388608, "read": 0.008388608, "random read 4 KiB": 2048, "create": 60, "stat": 60, "unlink": 60}
assert all(abs(amounts[name] / expected[name] - 1) < 1e-6 for name in expected), amounts
assert report["about"]["meta.sync"] and report["about"]["request_bytes"] == 65536, report["about"]
P
test -z "$("$spate" ls -a spate:/)" || fail 'bench leaves files behind'
"$spate" bench meta --files 20 > "$dir/table"
has -E '^unlink +[0-9]+ per s$' < "$dir/table" || fail 'bench prints no table'
if grep -q '^read' "$dir/table"; then fail 'bench has also measured data'; fi

code=0
"$spate" bench --request 1TiB 2> "$dir/err" || code=$?
test "$code" = 2 || fail "bench of 1 TiB ends with exit code $code"

"$spate" bench meta --files 100000000 > /dev/null 2> "$dir/err" &
bench=$!
works() { test -n "$("$spate" ls -a spate:/)"; }
wait_for works
kill -INT "$bench"
code=0
wait "$bench" || code=$?
test "$code" = 1 || fail "an interrupted bench ends with exit code $code"
grep -q 'interrupted' "$dir/err" || fail 'bench does not report the interrupt'
test -z "$("$spate" ls -a spate:/)" || fail 'an interrupted bench leaves files behind'
