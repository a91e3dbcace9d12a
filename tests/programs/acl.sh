# SPDX-License-Identifier: Apache-2.0
# setfacl, getfacl, setfattr and getfattr set and show access control lists and attributes. Copies keep them.
# needs: setfacl getfacl setfattr getfattr cp
echo text > file && mkdir d
setfacl -m u:1:rw,g:2:r,m::rw file
getfacl -cp file > "$local/acl"
grep -q '^user:daemon:rw-' "$local/acl" && grep -q '^group:bin:r--' "$local/acl" && equal "$(stat -c %A file)" -rw-rw-r--
setfacl -d -m u:1:rwx d && mkdir d/sub && echo x > d/below
getfacl -cp d/sub | grep -q '^default:user:daemon:rwx' && getfacl -cp d/below | grep -q '^user:daemon:rwx'
getfacl -Rp d file > "$local/all" && setfacl -b file && setfacl -R -b -k d && equal "$(getfacl -R --skip-base .)" ""
setfacl --restore="$local/all" && getfacl -Rp d file | cmp - "$local/all"
setfattr -n user.colour -v blue file && setfattr -n user.none file
head -c 3000 /dev/urandom | base64 -w 0 > "$local/value"
setfattr -n user.long -v "0s$(cat "$local/value")" file
equal "$(getfattr --only-values -n user.colour file)" blue
getfattr -e base64 --only-values -n user.long file | base64 -w 0 | cmp - "$local/value"
equal "$(getfattr file | grep -c user)" 3
cp -a file copy && getfattr -d -m - copy | tail -n +2 | cmp - <(getfattr -d -m - file | tail -n +2)
getfacl -c copy | cmp - <(getfacl -c file)
setfattr -x user.colour file && equal "$(getfattr file | grep -c user)" 2
if getfattr -n user.colour file > "$local/said" 2>&1; then exit 1; fi
grep -q 'No such attribute' "$local/said"
tar --acls --xattrs -cf t.tar copy d && mkdir out && tar --acls --xattrs -xf t.tar -C out && getfacl -Rc d | cmp - <(cd out && getfacl -Rc d)
