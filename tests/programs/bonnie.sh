# SPDX-License-Identifier: Apache-2.0
# bonnie++, the tool of the PVFS paper, writes and rewrites data by block, seeks, and creates, reads and removes files.
# needs: bonnie++
# seconds: 900
user=(); [ "$(id -u)" -ne 0 ] || user=(-u root)
bonnie++ -q -d . -s 16:65536 -r 8 -n 1:20000:10:4 -f "${user[@]}" > "$local/out" 2> "$local/errors" || { cat "$local/errors"; exit 1; }
if grep -iE 'error|fail|bad|can.t' "$local/errors"; then exit 1; fi
equal "$(tail -n 1 "$local/out" | cut -d, -f1)" 1.98  # of the form of its line
equal "$(ls -A)" ""
cat "$local/out"
