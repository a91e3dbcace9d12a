# SPDX-License-Identifier: Apache-2.0
# Runs `rsync -a` twice, and the second run finds nothing to do. It copies changes and deletions in both directions.
# needs: rsync
source_tree
rsync -aH "$local/source" .
diff -r --no-dereference "$local/source" source
equal "$(rsync -aHi "$local/source" .)" ""
equal "$(rsync -aHi --checksum "$local/source" .)" ""
rsync -aH --stats "$local/source" . > stats
grep -q 'Number of regular files transferred: 0' stats
echo more >> "$local/source/docs/wire.md" && rm "$local/source/docs/disk.md" && chmod 640 "$local/source/nothing"
equal "$(rsync -aHi --delete "$local/source" . | grep -v '/$' | cut -c1-2,12- | LC_ALL=C sort)" $'*d source/docs/disk.md\n.f source/nothing\n>f source/docs/wire.md'
diff -r --no-dereference "$local/source" source
rsync -aH --inplace --no-whole-file source/ "$local/back" && diff -r --no-dereference "$local/back" source
equal "$(rsync -aHi source/ "$local/back")" ""
# rsync copies within the tree, copies sparse files, shrinks files in place, and appends to a partial file.
rsync -aHX --partial source/ second && diff -r --no-dereference source second
head -c 5000000 /dev/urandom > big && truncate -s 20M big && rsync -aS big sparse && cmp big sparse
head -c 4000000 big > less && rsync --inplace --no-whole-file less sparse && cmp less sparse
rsync -a --append-verify big less && cmp big less
