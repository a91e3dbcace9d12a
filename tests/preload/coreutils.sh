#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everyday tools work on /spate. Each result is compared with that in a local folder.
. "$SPATE_SOURCE/tests/preload/lib.sh"
"$spate" up -q --dir "$dir/fs" --port "$port" --io 2
export local=$dir/local
mkdir -p "$local/tree/a/b"
seq 1 2000 > "$local/tree/numbers"
head -c 3000000 /dev/urandom > "$local/tree/a/random"
ln -s ../numbers "$local/tree/a/link"
ln "$local/tree/numbers" "$local/tree/a/b/hard"
: > "$local/tree/a/b/empty"

check "nothing there" '! ls /spate/none 2> /dev/null; ! cat /spate/none 2> /dev/null; [ -z "$(ls -A /spate)" ]'
check "cp -a, diff, find" 'cp -a "$local/tree" /spate/t; diff -r "$local/tree" /spate/t
  [ "$(cd "$local/tree" && find . -printf "%P %y %m %s %n %l\n" | grep -v " d " | sort)" = "$(cd /spate/t && find . -printf "%P %y %m %s %n %l\n" | grep -v " d " | sort)" ]
  [ /spate/t/numbers -ef /spate/t/a/b/hard ]'
check "stat, touch, chmod, truncate" 'touch -d @1000000000 /spate/t/numbers; [ "$(stat -c %Y /spate/t/numbers)" = 1000000000 ]
  chmod 640 /spate/t/numbers; [ "$(stat -c %a /spate/t/numbers)" = 640 ]
  truncate -s 12345 /spate/t/a/b/empty; [ "$(stat -c %s /spate/t/a/b/empty)" = 12345 ]; cmp -n 12345 /spate/t/a/b/empty /dev/zero
  (umask 077; : > /spate/t/secret); [ "$(stat -c %a /spate/t/secret)" = 600 ]'
check "redirections" 'ls -l /usr > /spate/ls; ls -l /usr | cmp - /spate/ls
  (echo a; /bin/echo b; echo c) > /spate/abc; /bin/echo d >> /spate/abc; [ "$(tr -d "\n" < /spate/abc)" = abcd ]
  exec 5<> /spate/five; echo one >&5; /bin/echo two >&5; [ "$(cat /spate/five)" = "$(printf "one\ntwo")" ]; exec 5>&-
  [ "$(head -c 5 /spate/t/numbers; echo; { read -r x; cat; } < /spate/abc)" = "$(printf "1\n2\n3\nb\nc\nd" | sed "3s/\$//")" ] || { read -r y < /spate/t/numbers; [ "$y" = 1 ]; }
  while read -r n; do last=$n; done < /spate/t/numbers; [ "$last" = 2000 ]
  cat << END > /spate/here
$(cat /spate/abc)
END
  cmp /spate/here /spate/abc'
check "sort, sed -i, dd, tail, md5sum, split" 'sort -r "$local/tree/numbers" -o /spate/sorted; sort -r "$local/tree/numbers" | cmp - /spate/sorted
  sed -i "s/^1\$/one/" /spate/sorted; [ "$(tail -n 1 /spate/sorted)" = 1 ] || grep -qx one /spate/sorted
  dd if="$local/tree/a/random" of=/spate/dd bs=64k conv=fsync 2> /dev/null; cmp /spate/dd "$local/tree/a/random"
  dd if="$local/tree/numbers" of=/spate/dd bs=1 seek=1000 count=10 conv=notrunc 2> /dev/null; cmp -n 10 -i 1000:0 /spate/dd "$local/tree/numbers"
  [ "$(md5sum < /spate/t/a/random)" = "$(md5sum < "$local/tree/a/random")" ]
  cd /spate; split -b 1000000 t/a/random part.; cat part.* | cmp - t/a/random; rm part.*'
check "links" 'ln -s t/numbers /spate/l; cmp /spate/l "$local/tree/numbers"; [ "$(readlink /spate/l)" = t/numbers ]; [ "$(realpath /spate/t/a/link)" = /spate/t/numbers ]
  ln -s /etc/passwd /spate/out; cmp /spate/out /etc/passwd; ln -s /spate/abc /spate/abs; [ "$(head -n 1 /spate/abs)" = a ]; [ "$(stat -L -c %n /spate/out)" = /spate/out ]'
check "mv, across too" 'mv /spate/t/a/random /spate/moved; cmp /spate/moved "$local/tree/a/random"; mv /spate/moved "$local/moved"; cmp "$local/moved" "$local/tree/a/random"
  mv "$local/moved" /spate/t/a/random; mv -n /spate/abc /spate/here; [ -e /spate/abc ]'
check "the working directory" 'cd /spate/t; [ "$(pwd -P)" = /spate/t ]; [ "$(/bin/pwd -P)" = /spate/t ]; echo z > z; [ -s /spate/t/z ]; cd a/b; [ "$(/bin/pwd)" = /spate/t/a/b ]; ls ../.. | grep -qx z
  (cd ../../../..; [ "$(/bin/pwd)" = / ]; ls etc > /dev/null); cat /spate/../etc/passwd | cmp - /etc/passwd; cat ../../../../etc/passwd | cmp - /etc/passwd; cat //spate/./t/../abc > /dev/null
  echo "$(cd /spate/t && bash -c "cd a && /bin/pwd")" | grep -qx /spate/t/a; cd "$local"; [ "$(/bin/pwd)" = "$local" ]; [ -d tree ]'
check "df, du, xattr" 'df /spate | grep -q "%"; [ "$(du -s --apparent-size -B1 /spate/t/numbers | cut -f1)" = "$(stat -c %s /spate/t/numbers)" ]'
check "mkdir, rmdir, rm -r" 'mkdir -p /spate/m/n/o; ! rmdir /spate/m 2> /dev/null; rm -r /spate/m; ! [ -e /spate/m ]; rm -rf /spate/t; [ ! -e /spate/t ]'
check "another prefix, two of them" 'ls /spate > /dev/null'
SPATE_PREFIX=/a:/b/c=$dir/fs in_spate 'echo q > /a/q; [ "$(cat /b/c/q)" = q ]; [ ! -e /spate ] || ! ls /spate/q; mv /a/q /b/c/q2; cp /b/c/q2 /a/q3'
said=$(SPATE_PREFIX=/a=$dir/none:/b=$dir/none in_spate 'cat /a/x /a/y /b/x 2>&1 || true')
told=$(grep -c "^spate: /[ab]: " <<< "$said" || true)
[ "$told" = 2 ] || { echo "two prefixes without a file system gave $told messages instead of one each:"; echo "$said"; exit 1; }
ls -A /dev/shm /tmp | grep -F .spate-cwd && { echo "left something behind"; exit 1; }
exit 0
