#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Listings bring leases (readdirplus=). They are right, they save questions, and the mount never answers with anything old.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
names=1600  # more than fit in one page of a listing

mkdir "$dir/d" && (
  cd "$dir/d"
  seq $names | xargs touch
  for i in $(seq 7 200 $names); do head -c $((i * 3)) /dev/zero > $i; done
  chmod 640 9 && mkdir sub && ln -s 9 link
)
"$spate" cp -q -r "$dir/d" spate:/d
tree() { (cd "$1" && find . -mindepth 1 -printf '%P %y %s %m %n %l\n' | sort); }
truth=$(cd "$dir/d" && find . -mindepth 1 -type f -printf '%P %s\n' | sort)
# looked: prints how many single names the mount has asked about.
looked() { echo $(($(asked lookup_lease) + $(asked lookup) + $(asked getattr))); }

# A mount that knows nothing yet lists the directory.
mount_at no readdirplus=no
mount_at auto
mount_at yes readdirplus=yes
mount_at kernel readdirplus=yes,attr_cache=kernel
mount_at none readdirplus=yes,noleases
before=$(looked)
equal "$(cd "$dir/none/d" && find . -mindepth 1 -type f -printf '%P %s\n' | sort)" "$truth"
[ $(($(looked) - before)) -ge $names ]
equal "$(asked list_lease)" 0
before=$(looked)
all=$(tree "$dir/no/d")
[ $(($(looked) - before)) -ge $names ]
equal "$(asked list_lease)" 0
for mount in auto yes kernel; do
  before=$(looked)
  listed=$(asked list_lease)
  equal "$(tree "$dir/$mount/d")" "$all"
  [ $(($(looked) - before)) -lt 20 ]
  [ $(($(asked list_lease) - listed)) -lt 10 ]
  equal "$(cd "$dir/$mount/d" && find . -type f -size +2k -printf '%P\n' | sort)" "$(cd "$dir/d" && find . -type f -size +2k -printf '%P\n' | sort)"
  [ $(($(looked) - before)) -lt 20 ]
done
for word in no auto yes; do grep -q "connected to the kernel .* readdirplus=$word\$" "$dir/fs/log/mount.log"; done

# The mount sees at once what another one changes in the directory.
for mount in auto yes kernel; do
  chmod 600 "$dir/no/d/9" && equal "$(stat -c %a "$dir/$mount/d/9")" 600
  chmod 640 "$dir/no/d/9" && equal "$(stat -c %a "$dir/$mount/d/9")" 640
  echo more >> "$dir/no/d/11" && equal "$(stat -c %s "$dir/$mount/d/11")" "$(stat -c %s "$dir/none/d/11")"
  rm "$dir/no/d/12" && test ! -e "$dir/$mount/d/12" && touch "$dir/no/d/12" && test -e "$dir/$mount/d/12"
  mv "$dir/no/d/13" "$dir/no/d/new" && test ! -e "$dir/$mount/d/13" && test -e "$dir/$mount/d/new"
  mv "$dir/no/d/new" "$dir/no/d/13" && test -e "$dir/$mount/d/13"
done

# A listing has each name once that exists all the time, whatever others do, and also if an upgrade comes in the middle of it.
python3 "$(dirname "$0")/readdirplus.py" "$dir/yes/d" "$dir/no/d" "$dir/auto/d" -- "$spate" mount --upgrade "$dir/yes"
equal "$(tree "$dir/yes/d")" "$(tree "$dir/none/d")"

# A directory is removed with all that is in it while others list it.
mkdir "$dir/no/e" && (cd "$dir/no/e" && seq 150 | xargs touch)
for mount in auto yes kernel; do
  while [ -e "$dir/no/e" ]; do find "$dir/$mount/e" -size +1k > /dev/null 2>&1 || true; done &
done
rm -r "$dir/no/e"
wait
for mount in auto yes kernel; do equal "$(ls -A "$dir/$mount")" d; done
