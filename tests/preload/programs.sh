#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Whole sessions of programs that people use on /spate: tar, git, make with gcc. Programs that are not installed are left out.
. "$SPATE_SOURCE/tests/preload/lib.sh"
"$spate" up -q --dir "$dir/fs" --port "$port" --io 2
export local=$dir/local SPATE_SOURCE
for program in ls tar git sqlite3 python3 bash make gcc rsync; do
  has_program "$program" || continue
  "$spate" check-binary "$program" > "$dir/said" 2>&1 || { echo "the preload library does not cover $program: $(cat "$dir/said")"; exit 1; }
done

check tar 'mkdir /spate/tar; cp -r "$SPATE_SOURCE/src/base" /spate/tar/base; cd /spate/tar
  tar cf base.tar base; tar czf "$local/base.tgz" base; mkdir out; tar xf base.tar -C out; diff -r base out/base; tar xzf "$local/base.tgz" -C out; diff -r base out/base
  tar cf - base | tar xf - -C "$local"; diff -r base "$local/base"; tar df base.tar'
if has_program git; then
  check git 'mkdir /spate/git; cd /spate/git; git init -q -b main a; cd a; git config user.name n; git config user.email e@x
    cp -r "$SPATE_SOURCE/src/base" .; git add .; git commit -q -m one; echo more >> base/README.md; git commit -q -a -m two; git fsck --strict 2> "$local/fsck"; [ ! -s "$local/fsck" ]
    git gc -q; git clone -q /spate/git/a ../b; cd ../b; [ "$(git log --oneline | wc -l)" = 2 ]; git clone -q /spate/git/a "$local/c"; diff -r --exclude=.git . "$local/c"
    git checkout -q -b other HEAD~1; git diff main --stat | grep -q README; [ -z "$(git status --porcelain)" ]'
fi
if has_program gcc && has_program make; then
  check "make and gcc" 'mkdir /spate/make; cd /spate/make; for i in 1 2 3; do printf "int f%s(void) { return %s; }\n" $i $i > f$i.c; done
    printf "#include <stdio.h>\nint f1(void); int f2(void); int f3(void);\nint main(void) { printf(\"%%d\\\\n\", f1() + f2() + f3()); return 0; }\n" > main.c
    printf "sum: main.o f1.o f2.o f3.o\n\t\$(CC) -o \$@ \$^\n" > Makefile
    make -s -j2; [ "$(./sum)" = 6 ]; make -s; touch f2.c; make > made; grep -q f2.c made; ar rcs lib.a f1.o f2.o f3.o; gcc -o sum2 main.o lib.a; [ "$(./sum2)" = 6 ]
    gcc -shared -fPIC -o libf.so f1.c f2.c f3.c; printf "import ctypes\nassert ctypes.CDLL(\"/spate/make/libf.so\").f3() == 3\n" > use.py; python3 use.py'
fi
if has_program rsync; then
  check rsync 'rsync -a "$SPATE_SOURCE/src/base" /spate/r/; rsync -a "$SPATE_SOURCE/src/base" /spate/r/; [ -z "$(rsync -a -i "$SPATE_SOURCE/src/base" /spate/r/)" ]; diff -r "$SPATE_SOURCE/src/base" /spate/r/base; rsync -a /spate/r/base "$local/back"; diff -r "$local/back/base" "$SPATE_SOURCE/src/base"'
fi
if has_program sqlite3; then
  check sqlite3 'cd /spate; sqlite3 db "create table t(a integer, b text)"
    for i in 1 2 3; do (for j in 1 2 3 4; do sqlite3 -cmd ".timeout 20000" db "begin immediate; insert into t values($i, $j); commit"; done) & done; wait
    [ "$(sqlite3 db "select count(*), sum(a) from t; pragma integrity_check")" = "$(printf "12|24\nok")" ]'
fi
exit 0
