# SPDX-License-Identifier: Apache-2.0
# Several processes write to one database at once, with a rollback journal and, on a mount (it needs shared maps), with
# a write-ahead log. The database has every transaction completely and once.
# needs: sqlite3
writers=4
rounds=$([ -n "${QUICK:-}" ] && echo 3 || echo 10)

# work_on DB: each writer moves amounts between two accounts and adds to the history. A reader sees a total that never changes.
work_on() {
  local i j pids=() pid
  sqlite3 "$1" "create table account(id integer primary key, amount integer); insert into account values (1, 1000), (2, 1000);
    create table history(writer integer, round integer, text text, unique(writer, round)); create index i on history(text)"
  for i in $(seq $writers); do
    (for j in $(seq "$rounds"); do
      sqlite3 -bail -cmd '.timeout 30000' "$1" "begin immediate; update account set amount = amount - $j where id = 1; update account set amount = amount + $j where id = 2;
        insert into history values ($i, $j, hex(randomblob(2000))); commit"
    done) & pids+=($!)
  done
  for _ in $(seq "$rounds"); do
    equal "$(sqlite3 -bail -cmd '.timeout 30000' "$1" 'select sum(amount) from account')" 2000
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
  equal "$(sqlite3 "$1" 'select count(*), sum(round), (select amount from account where id = 1) from history')" \
    "$((writers * rounds))|$((writers * rounds * (rounds + 1) / 2))|$((1000 - writers * rounds * (rounds + 1) / 2))"
  equal "$(sqlite3 "$1" 'pragma integrity_check')" ok
}

work_on rollback.db
[ ! -e rollback.db-journal ]
for mode in truncate persist; do
  sqlite3 -bail "$mode.db" "pragma journal_mode = $mode; create table t(a); insert into t values (1); begin; delete from t; rollback; begin; insert into t values (2); commit" > "$local/said"
  equal "$(sqlite3 "$mode.db" 'select sum(a) from t; pragma integrity_check')" $'3\nok'
done
[ -z "${QUICK:-}" ] || exit 0
# A large transaction is rolled back. If a program dies in one, the next program rolls it back.
sqlite3 rollback.db "pragma cache_size = 10; begin; update history set text = hex(randomblob(3000)); rollback; pragma integrity_check" > "$local/said"
equal "$(cat "$local/said")" ok
before=$(sqlite3 rollback.db 'select * from history order by 1, 2' | sha256sum)
(printf 'pragma cache_size = 10;\nbegin;\nupdate history set text = hex(randomblob(3000));\n.shell kill -9 $PPID\n' | sqlite3 rollback.db) > "$local/said" 2>&1 || true
equal "$(sqlite3 -cmd '.timeout 50000' rollback.db 'select * from history order by 1, 2' | sha256sum)" "$before"
equal "$(sqlite3 rollback.db 'pragma integrity_check; vacuum; pragma integrity_check')" $'ok\nok'
sqlite3 rollback.db '.backup copy.db' && equal "$(sqlite3 copy.db 'select * from history order by 1, 2' | sha256sum)" "$before"

# With a write-ahead log, processes share a writable map. The preload library has no such maps, so there only one process can use the database.
if [ "$FRONTEND" != preload ]; then
  equal "$(sqlite3 wal.db 'pragma journal_mode = wal')" wal && work_on wal.db
else
  alone='pragma locking_mode = exclusive;'
  equal "$(sqlite3 wal.db "$alone pragma journal_mode = wal; create table t(a); insert into t values (1), (2); select sum(a) from t")" $'exclusive\nwal\n3'
  if sqlite3 wal.db 'select * from t' > "$local/said" 2>&1; then exit 1; fi
  equal "$(sqlite3 wal.db "$alone pragma journal_mode = delete")" $'exclusive\ndelete' && equal "$(sqlite3 wal.db 'select sum(a) from t')" 3
fi
