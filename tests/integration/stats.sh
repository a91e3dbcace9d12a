#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `spate stats` shows what each server and all of them together have done. It names a server that is down, and still shows the others.
source "$(dirname "$0")/common.sh"

take_ports 3
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
for i in 1 2 3; do "$spate" mkdir "spate:/d$i"; done
head -c 3000000 /dev/urandom | "$spate" put spate:/file

"$spate" stats --json > "$dir/stats"
python3 - "$dir/stats" <<'P'
import json, sys
stats = json.load(open(sys.argv[1]))
by_server = {s["server"]: s["operations_ns"] for s in stats["servers"]}
assert by_server[1]["mkdir"]["count"] == 3 and by_server[1]["mkdir"]["failed"] == 0, by_server[1]
assert 0 < by_server[1]["mkdir"]["p50"] <= by_server[1]["mkdir"]["p99"] <= by_server[1]["mkdir"]["max"]
writes = [by_server[n]["write"]["count"] for n in (2, 3)]
assert min(writes) > 0 and stats["total"]["operations_ns"]["write"]["count"] == sum(writes), stats["total"]
moved = sum(m["value"] for m in stats["total"]["metrics"] if m["name"] == "spate_flow_bytes_total" and m["labels"]["direction"] == "write")
assert moved == 3000000, moved
names = {"spate_bmi_sent_bytes_total", "spate_bmi_lane_bytes_total", "spate_bmi_located_bytes_total"}
carried = [m["value"] for m in stats["total"]["metrics"] if m["name"] in names]
assert sum(carried) > 0, "the network counts nothing"
P
"$spate" stats 1 | has -E '^  mkdir +3 +0 ' || fail 'stats prints no table'
if "$spate" mkdir spate:/d1 2> /dev/null; then fail 'a second mkdir of the same name has succeeded'; fi
"$spate" stats 1 | has -E '^  mkdir +4 +1 ' || fail 'stats does not count a failed request'
# The second table of --watch has what came since the first.
"$spate" stats 1 -w 1 -n 2 > "$dir/watch"
test "$(grep -c '^  mkdir ' "$dir/watch")" = 1 || fail 'the second table does not count from the first on'
"$spate" stats --prometheus > "$dir/prometheus"
grep -qx 'spate_rpc_request_ns_count{server="1",op="mkdir"} 4' "$dir/prometheus" || fail 'the Prometheus text lacks the count'
test "$(grep -c '^# TYPE spate_rpc_request_ns histogram' "$dir/prometheus")" = 1 || fail 'the metric has not exactly one TYPE line'

code=0
"$spate" stats 9 2> /dev/null || code=$?
test "$code" = 2 || fail "stats of a server that is not in spate.toml ends with exit code $code"
kill -9 "$(cut -d' ' -f1 "$dir/fs/run/server-3.pid")"
code=0
"$spate" stats > "$dir/told" 2> "$dir/err" || code=$?
test "$code" = 1 || fail "stats with a server down ends with exit code $code"
grep -q 'server 3' "$dir/err" || fail 'stats does not name the dead server'
grep -q '^server 2' "$dir/told" || fail 'stats does not show the living server'
