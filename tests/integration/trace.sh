#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One operation has the same trace id in the structured logs of the client, the meta server and the io servers.
source "$(dirname "$0")/common.sh"

take_ports 4
SPATE_LOG_LEVEL=warn,rpc=debug SPATE_LOG_FORMAT=json "$spate" up -q --dir "$dir/fs" --io 3 --port "$port"
head -c 5000000 /dev/urandom > "$dir/data"
"$spate" setstripe -q -S 64K spate:/file  # any large read goes to all three io servers
"$spate" put spate:/file < "$dir/data"

# traces FILE OP: prints the trace ids that this log has for requests of OP, one a line.
traces() { grep -F "\"op\":\"$2\"" "$1" | grep -o '"trace":"[0-9a-f]*"' | cut -d'"' -f4 | sort -u; }
# The client logs text, whatever format the servers use.
client_traces() { grep -o "op=$1 .*" "$dir/client" | grep -o 'trace=[0-9a-f]*' | cut -d= -f2 | sort -u; }

# A read by one call reaches all three io servers. Open and close reach only the meta server.
SPATE_LOG_LEVEL=warn,rpc=debug "$spate" cat spate:/file 2> "$dir/client" | cmp - "$dir/data"
client_traces open > "$dir/opens"
test "$(wc -l < "$dir/opens")" = 1 || fail 'the client does not log its open'
grep -qxf "$dir/opens" <(traces "$dir/fs/log/server-1.log" open) || fail 'the meta server has not logged the open'
client_traces read > "$dir/reads"
test -s "$dir/reads" || fail 'the client does not log its reads'
for server in 2 3 4; do
  traces "$dir/fs/log/server-$server.log" read > "$dir/reads-$server"
  test -s "$dir/reads-$server" || fail "server $server has logged no read"
  test -z "$(comm -23 "$dir/reads-$server" "$dir/reads")" || fail "server $server has reads of other traces"
done
# A large read reaches every server, so its id is in four logs.
common=$(comm -12 "$dir/reads-2" <(comm -12 "$dir/reads-3" "$dir/reads-4"))
test -n "$common" || fail 'no trace id is in the logs of all io servers'

# A truncation goes from the client to the meta server, and from there to the io servers.
for server in 1 2 3 4; do : > "$dir/fs/log/server-$server.log"; done
SPATE_LOG_LEVEL=warn,rpc=debug "$spate" put spate:/file < /dev/null 2> "$dir/client"
client_traces create > "$dir/creates"
test "$(wc -l < "$dir/creates")" = 1 || fail 'the client does not log its create'
grep -qxf "$dir/creates" <(traces "$dir/fs/log/server-1.log" create) || fail 'the meta server has not logged the create'
for server in 2 3 4; do
  traces "$dir/fs/log/server-$server.log" datafile_truncate | cmp - "$dir/creates" || fail "server $server truncates under another trace id"
done
