# SPDX-License-Identifier: Apache-2.0
# git commits, clones by protocol and by links, collects garbage, merges, rebases, and makes a worktree. `git fsck` finds no fault.
# needs: git
# seconds: 600
export GIT_CONFIG_GLOBAL=$local/config GIT_CONFIG_NOSYSTEM=1
git config --global user.name n && git config --global user.email e@x && git config --global init.defaultBranch main
git config --global safe.directory '*' && git config --global protocol.file.allow always
whole() { git -C "$1" fsck --strict --full --no-dangling > "$local/fsck" 2>&1 && [ ! -s "$local/fsck" ] || { cat "$local/fsck"; return 1; }; }
git init -q a
cp -r "${sources[@]}" a && cd a
git add . && git commit -q -m one && echo more >> log/README.md && git commit -q -a -m two
equal "$(git status --porcelain)" ""
whole .
git branch side HEAD~1 && git gc -q && git repack -adfq
cd .. && git clone -q "file://$work/a" b && git clone -q a c && git clone -q --bare a d.git && git clone -q a "$local/out"
for copy in a b c d.git "$local/out"; do whole "$copy"; done
diff -r --exclude=.git a b && diff -r --exclude=.git a "$local/out"
[ -z "${QUICK:-}" ] || exit 0
cd b && git checkout -q -b side origin/side && git mv docs papers && sed -i 1d log/log.h && git commit -q -a -m three
git checkout -q main && git merge -q -m merged side && equal "$(git log --oneline | wc -l)" 4
equal "$(tail -n 1 log/README.md)" more
git checkout -q -b rebased HEAD~1 && echo x > new && git add new && git commit -q -m four && git rebase -q main && [ -d papers ]
git worktree add -q ../tree side && equal "$(git -C ../tree status --porcelain)" ""
echo dirty >> log/README.md && git stash -q && equal "$(git status --porcelain)" "" && git stash pop -q
equal "$(git status --porcelain)" " M log/README.md"
git push -q ../d.git main:pushed && cd .. && whole d.git && whole b
# A repository outside of the tree pulls from one inside.
git -C "$local/out" pull -q "$work/b" main --no-rebase && whole "$local/out" && [ -d "$local/out/papers" ]
