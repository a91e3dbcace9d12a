# SPDX-License-Identifier: Apache-2.0
# tar packs and unpacks archives in the tree. diff and `tar d` compare them; the latter also compares owners, modes and times.
# needs: tar gzip diff
source_tree
cd "$local" && tar cf "$work/s.tar" source && tar czf "$work/s.tgz" source && cd "$work"
tar xf s.tar
diff -r --no-dereference "$local/source" source
tar df s.tar
tar tzf s.tgz | LC_ALL=C sort > names && equal "$(LC_ALL=C sort <(tar tf s.tar) | cmp - names)" ""
equal "$(stat -c %h 'source/second name')" 2
equal "$(stat -c %a source/docs/config.md)" 600
tar cf - source | tar xf - -C "$local" --transform 's/^source/back/'
diff -r --no-dereference "$local/source" "$local/back"
# A sparse file has as few blocks in the unpacked copy as in the original.
truncate -s 50M sparse && printf x | dd of=sparse bs=1 seek=30000000 conv=notrunc status=none
tar cSf sparse.tar sparse && mkdir out && tar xSf sparse.tar -C out && cmp sparse out/sparse
[ "$(stat -c %s sparse.tar)" -lt 1000000 ]
# An incremental archive has only what has changed since.
tar cf level0.tar -g snapshot source && echo more >> source/docs/wire.md && tar cf level1.tar -g snapshot source
equal "$(tar tf level1.tar | grep -v '/$')" source/docs/wire.md
tar rf s.tar names && tar --delete -f s.tar source/docs/wire.md && tar tf s.tar > after
grep -q '^names$' after
if grep -q '^source/docs/wire.md$' after; then exit 1; fi
