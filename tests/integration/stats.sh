#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# spate stats shows what was done, server by server and together; a server that is down is told, the others still answer.
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
"$spate" stats 1 | has -E '^  mkdir +3 +0 ' || fail 'no table'
if "$spate" mkdir spate:/d1 2> /dev/null; then fail 'mkdir twice'; fi
"$spate" stats 1 | has -E '^  mkdir +4 +1 ' || fail 'a failed request is not counted'
# What came in between.
"$spate" stats 1 -w 1 -n 2 > "$dir/watch"
test "$(grep -c '^  mkdir ' "$dir/watch")" = 1 || fail 'the second table is not about what came since the first'
"$spate" stats --prometheus > "$dir/prometheus"
grep -qx 'spate_rpc_request_ns_count{server="1",op="mkdir"} 4' "$dir/prometheus" || fail 'no Prometheus text'
test "$(grep -c '^# TYPE spate_rpc_request_ns histogram' "$dir/prometheus")" = 1 || fail 'one TYPE line a metric'

code=0
"$spate" stats 9 2> /dev/null || code=$?
test "$code" = 2 || fail "exit code $code for a server that is not in spate.toml"
kill -9 "$(cut -d' ' -f1 "$dir/fs/run/server-3.pid")"
code=0
"$spate" stats > "$dir/told" 2> "$dir/err" || code=$?
test "$code" = 1 || fail "exit code $code with a server down"
grep -q 'server 3' "$dir/err" || fail 'the dead server is not named'
grep -q '^server 2' "$dir/told" || fail 'the living one is not shown'
