# SPDX-License-Identifier: Apache-2.0
# Runs stress-ng's stressors of file systems with --verify, two processes each. The script lists those that a front end cannot run.
# needs: stress-ng
# excused: makes system calls itself|fanotify_mark|open_by_handle_at
# seconds: 3000
stressors="access chattr chdir chmod chown copy-file dentry dir dirdeep dirmany dup fallocate fcntl fiemap file-ioctl filename flock
  fstat getdent hdd io iomix lease link locka lockf lockofd mknod open rename seek sync-file symlink touch utime xattr"
read -r -a stressors <<< "${STRESSORS:-$(echo $stressors)}"
wrong=()
for stressor in "${stressors[@]}"; do
  status=0
  timeout -k 30 600 stress-ng --temp-path . --"$stressor" 2 --timeout "${STRESS_SECONDS:-3}" --verify --hdd-bytes 4M --iomix-bytes 4M --fallocate-bytes 4M \
    --seek-size 4M --sync-file-bytes 4M --dentries 200 --dirdeep-inodes 200 > "$local/out" 2>&1 || status=$?
  # link and symlink end only after 8192 names each. Status 3: it cannot run here. Status 4: this system does not have it.
  if [ $status != 0 ] || grep -q 'fail:' "$local/out"; then
    echo "== $stressor: status $status"
    grep -vE 'dispatching|run time|setting to|skipped' "$local/out" | head -n 8 || true
    [ $status = 3 ] || [ $status = 4 ] || wrong+=("$stressor")
  fi
  rm -rf ./tmp-stress-ng*
done
equal "${wrong[*]}" ""
