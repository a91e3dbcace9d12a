// SPDX-License-Identifier: Apache-2.0
// Makes each call on each kind of path, on the kernel's file system and on Spate's. Both must give the same result, and
// have the same tree afterwards.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <functional>

#include "tests/posix/pair.h"

namespace spate::posix_test {
namespace {

const std::string kLongName(255, 'n');

void populate(Frontend& frontend) {
  const std::string root = frontend.root();
  for (const char* directory : {"/dir", "/dir/sub", "/empty"}) ASSERT_EQ(frontend.mkdir(directory, 0755).number, 0);
  for (const char* file : {"/file", "/dir/inside", "/twin"}) {
    const auto fd = static_cast<int>(frontend.open(file, O_WRONLY | O_CREAT | O_EXCL, 0644).number);
    ASSERT_EQ(frontend.write(fd, std::string("contents of ") + file).number,
              static_cast<std::int64_t>(12 + std::string(file).size()));
    frontend.close(fd);
  }
  const std::pair<std::string, const char*> links[] = {
      {"file", "/rel"},         {root + "/file", "/abs"}, {"dir", "/dirlink"}, {root + "/dir", "/absdir"},
      {"nowhere", "/dangling"}, {"loop", "/loop"},        {root, "/toroot"},   {"../file", "/dir/up"}};
  for (const auto& [target, path] : links) ASSERT_EQ(frontend.symlink(target, path).number, 0) << path;
  ASSERT_EQ(frontend.mknod("/fifo", S_IFIFO | 0600).number, 0);
  ASSERT_EQ(frontend.link("/twin", "/dir/twin2", false).number, 0);
}

/// Paths to all kinds of objects. None leads out of the tree.
std::vector<std::string> paths() {
  return {"",
          "/file",
          "/file/",
          "/file/x",
          "/file/..",
          "/none",
          "/none/",
          "/none/x",
          "/dir",
          "/dir/",
          "/dir/.",
          "/dir/sub",
          "/dir/sub/..",
          "/dir/sub/../inside",
          "/empty",
          "/empty/",
          "/empty/new",
          "/empty/new/",
          "/rel",
          "/rel/",
          "/rel/x",
          "/abs",
          "/dirlink",
          "/dirlink/",
          "/dirlink/sub",
          "/dirlink/new",
          "/absdir/sub",
          "/absdir/inside",
          "/dangling",
          "/dangling/",
          "/dangling/x",
          "/loop",
          "/loop/x",
          "/toroot/file",
          "/toroot/dir/up",
          "/dir/up",
          "//dir///sub//",
          "/fifo",
          "/fifo/x",
          "/twin",
          "/dir/twin2",
          "/" + kLongName,
          "/" + kLongName + "x",
          "/" + kLongName + "x/y",
          "/dir/./sub/./../twin2"};
}

struct Call {
  std::string name;
  std::function<Outcome(Frontend&, const std::string&)> run;
  bool changes = false;
};

/// Opens the path, reports the open object, writes and reads a little, and closes it.
Outcome open_and_use(Frontend& frontend, const std::string& path, int flags) {
  const Outcome opened = frontend.open(path, flags, 0640);
  if (opened.number < 0) return opened;
  const auto fd = static_cast<int>(opened.number);
  Outcome all = frontend.fstat(fd);
  all.text += " write " + describe(frontend.write(fd, "abc")) + " read " + describe(frontend.read(fd, 5)) + " seek " +
              describe(frontend.seek(fd, 0, SEEK_CUR)) + " ftruncate " + describe(frontend.ftruncate(fd, 7)) +
              " close " + describe(frontend.close(fd));
  return all;
}

std::vector<Call> calls_that_look() {
  return {
      {"stat", [](Frontend& f, const std::string& p) { return f.stat(p, true); }},
      {"lstat", [](Frontend& f, const std::string& p) { return f.stat(p, false); }},
      {"access", [](Frontend& f, const std::string& p) { return f.access(p, R_OK | X_OK); }},
      {"readlink", [](Frontend& f, const std::string& p) { return f.readlink(p); }},
      {"getxattr", [](Frontend& f, const std::string& p) { return f.getxattr(p, "user.none"); }},
      {"open path",
       [](Frontend& f, const std::string& p) {
         const Outcome opened = f.open(p, O_PATH, 0);
         if (opened.number < 0) return opened;
         const auto fd = static_cast<int>(opened.number);
         Outcome all = f.fstat(fd);
         all.text += " read " + describe(f.read(fd, 1)) + " seek " + describe(f.seek(fd, 0, SEEK_SET)) + " close " +
                     describe(f.close(fd));
         return all;
       }},
      {"open path nofollow directory",
       [](Frontend& f, const std::string& p) {
         const Outcome opened = f.open(p, O_PATH | O_NOFOLLOW | O_DIRECTORY, 0);
         if (opened.number >= 0) f.close(static_cast<int>(opened.number));
         return opened;
       }},
  };
}

std::vector<Call> calls_that_change() {
  std::vector<Call> calls = {
      {"mkdir", [](Frontend& f, const std::string& p) { return f.mkdir(p, 0750); }},
      {"rmdir", [](Frontend& f, const std::string& p) { return f.rmdir(p); }},
      {"unlink", [](Frontend& f, const std::string& p) { return f.unlink(p); }},
      {"symlink", [](Frontend& f, const std::string& p) { return f.symlink("target", p); }},
      {"link to", [](Frontend& f, const std::string& p) { return f.link("/file", p, false); }},
      {"link from", [](Frontend& f, const std::string& p) { return f.link(p, "/new", false); }},
      {"link from, followed", [](Frontend& f, const std::string& p) { return f.link(p, "/new", true); }},
      {"rename from", [](Frontend& f, const std::string& p) { return f.rename(p, "/new", 0); }},
      {"rename to, a file", [](Frontend& f, const std::string& p) { return f.rename("/dir/inside", p, 0); }},
      {"rename to, a directory", [](Frontend& f, const std::string& p) { return f.rename("/empty", p, 0); }},
      {"rename to, noreplace",
       [](Frontend& f, const std::string& p) { return f.rename("/file", p, RENAME_NOREPLACE); }},
      {"rename to, exchange",
       [](Frontend& f, const std::string& p) { return f.rename("/dir/inside", p, RENAME_EXCHANGE); }},
      {"truncate", [](Frontend& f, const std::string& p) { return f.truncate(p, 3); }},
      {"chmod", [](Frontend& f, const std::string& p) { return f.chmod(p, 0711); }},
      {"mknod fifo", [](Frontend& f, const std::string& p) { return f.mknod(p, S_IFIFO | 0640); }},
      {"mknod file", [](Frontend& f, const std::string& p) { return f.mknod(p, S_IFREG | 0640); }},
      {"utimens", [](Frontend& f, const std::string& p) { return f.utimens(p, 1000, 2000); }},
      {"setxattr", [](Frontend& f, const std::string& p) { return f.setxattr(p, "user.a", "value", 0); }},
      {"removexattr", [](Frontend& f, const std::string& p) { return f.removexattr(p, "user.none"); }},
  };
  const std::pair<const char*, int> opens[] = {
      {"open r", O_RDONLY},
      {"open w", O_WRONLY},
      {"open rw", O_RDWR},
      {"open rw trunc", O_RDWR | O_TRUNC},
      {"open rw append", O_RDWR | O_APPEND},
      {"open creat", O_RDWR | O_CREAT},
      {"open creat r", O_RDONLY | O_CREAT},
      {"open creat excl", O_RDWR | O_CREAT | O_EXCL},
      {"open creat trunc", O_WRONLY | O_CREAT | O_TRUNC},
      {"open creat nofollow", O_RDWR | O_CREAT | O_NOFOLLOW},
      {"open nofollow", O_RDONLY | O_NOFOLLOW},
      {"open directory", O_RDONLY | O_DIRECTORY},
      {"open directory nofollow", O_RDONLY | O_DIRECTORY | O_NOFOLLOW},
      {"open directory rw", O_RDWR | O_DIRECTORY},
      {"open creat directory", O_RDONLY | O_CREAT | O_DIRECTORY},
  };
  for (const auto& [name, flags] : opens) {
    calls.push_back({name, [how = flags](Frontend& f, const std::string& p) { return open_and_use(f, p, how); }});
  }
  return calls;
}

/// Known differences, with their reasons.
bool excused(const std::string& call, const std::string& path) {
  // The kernel opens fifos itself, whatever the file system. An open by Spate fails with ENXIO.
  if (path == "/fifo" && call.starts_with("open") && !call.starts_with("open path")) return true;
  // A file is renamed over a directory that contains it. POSIX gives one error, Linux another; both are true.
  if (call == "rename to, a file" && path == "/dir") return true;
  return false;
}

TEST(Oracle, IsExt4) {
  if (!is_ext4(place_of_oracle()))
    GTEST_SKIP() << "no folder on ext4 was found: what differs may be the oracle's doing";
}

class Errors : public testing::Test {
 protected:
  void SetUp() override {
    populate(pair.kernel());
    populate(pair.spate());
    pair.same_tree("the beginning");
    beginning = dump(pair.kernel(), "/", pair.kernel().root());
  }
  /// Restores the tree if a call has changed it.
  void restore() {
    if (dump(pair.kernel(), "/", pair.kernel().root()) == beginning) return;
    for (Frontend* frontend : {&pair.kernel(), &pair.spate()}) {
      wipe(*frontend, "/");
      populate(*frontend);
    }
  }
  Pair pair;
  std::string beginning;
};

TEST_F(Errors, EachReadingCallOnEachPath) {
  for (const Call& call : calls_that_look()) {
    for (const std::string& path : paths()) {
      if (!excused(call.name, path))
        pair.same(call.name + " " + path, [&](Frontend& frontend) { return call.run(frontend, path); });
    }
  }
}

TEST_F(Errors, EachChangingCallOnEachPath) {
  for (const Call& call : calls_that_change()) {
    for (const std::string& path : paths()) {
      if (excused(call.name, path)) continue;
      pair.same(call.name + " " + path, [&](Frontend& frontend) { return call.run(frontend, path); });
      pair.same_tree("after " + call.name + " " + path);
      restore();
    }
  }
}

TEST_F(Errors, RenameOfEachKindOverEachKind) {
  const char* kinds[] = {"/file", "/dir",       "/empty",   "/rel",  "/dirlink",  "/fifo",
                         "/twin", "/dir/twin2", "/dir/sub", "/none", "/dangling", "/dir/sub/x"};
  for (const char* from : kinds) {
    for (const char* to : kinds) {
      for (const unsigned flags :
           {0U, static_cast<unsigned>(RENAME_NOREPLACE), static_cast<unsigned>(RENAME_EXCHANGE)}) {
        if (std::string(from) == "/dir/twin2" && std::string(to) == "/dir" && flags == 0) continue;  // see excused()
        const std::string what = std::string("rename ") + from + " " + to + " flags " + std::to_string(flags);
        pair.same(what, [&](Frontend& frontend) { return frontend.rename(from, to, flags); });
        pair.same_tree("after " + what);
        restore();
      }
    }
  }
}

TEST_F(Errors, ValuesOutOfRange) {
  const auto fd = static_cast<int>(pair.same("open", [](Frontend& f) { return f.open("/file", O_RDWR, 0); }).number);
  const auto on = [&](const char* what, auto call) { pair.same(what, [&](Frontend& f) { return call(f, fd); }); };
  on("pread -1", [](Frontend& f, int n) { return f.pread(n, 1, -1); });
  on("pwrite -1", [](Frontend& f, int n) { return f.pwrite(n, "x", -1); });
  on("pread far", [](Frontend& f, int n) { return f.pread(n, 10, INT64_MAX - 100); });
  on("seek -1", [](Frontend& f, int n) { return f.seek(n, -1, SEEK_SET); });
  on("seek before", [](Frontend& f, int n) { return f.seek(n, -1000, SEEK_END); });
  on("seek end", [](Frontend& f, int n) { return f.seek(n, 5, SEEK_END); });
  on("seek cur", [](Frontend& f, int n) { return f.seek(n, -3, SEEK_CUR); });
  on("seek whence", [](Frontend& f, int n) { return f.seek(n, 0, 77); });
  on("seek hole", [](Frontend& f, int n) { return f.seek(n, 0, SEEK_HOLE); });
  on("seek data", [](Frontend& f, int n) { return f.seek(n, 1, SEEK_DATA); });
  on("seek data beyond", [](Frontend& f, int n) { return f.seek(n, 1000, SEEK_DATA); });
  on("seek data -1", [](Frontend& f, int n) { return f.seek(n, -1, SEEK_DATA); });
  on("ftruncate -1", [](Frontend& f, int n) { return f.ftruncate(n, -1); });
  on("ftruncate", [](Frontend& f, int n) { return f.ftruncate(n, 100); });
  on("fallocate 0", [](Frontend& f, int n) { return f.fallocate(n, 0, 0, 0); });
  on("fallocate -1", [](Frontend& f, int n) { return f.fallocate(n, 0, -1, 10); });
  on("fallocate", [](Frontend& f, int n) { return f.fallocate(n, 0, 0, 200); });
  on("fallocate keep", [](Frontend& f, int n) { return f.fallocate(n, FALLOC_FL_KEEP_SIZE, 0, 500); });
  on("punch", [](Frontend& f, int n) { return f.fallocate(n, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 3, 5); });
  on("punch without keep", [](Frontend& f, int n) { return f.fallocate(n, FALLOC_FL_PUNCH_HOLE, 3, 5); });
  on("zero", [](Frontend& f, int n) { return f.fallocate(n, FALLOC_FL_ZERO_RANGE, 190, 30); });
  on("fstat", [](Frontend& f, int n) { return f.fstat(n); });
  on("pread all", [](Frontend& f, int n) { return f.pread(n, 1000, 0); });
  on("close", [](Frontend& f, int n) { return f.close(n); });
  pair.same("closed", [&](Frontend& f) { return f.read(fd, 1); });
  pair.same("truncate -1", [](Frontend& f) { return f.truncate("/file", -1); });
  pair.same("access 8", [](Frontend& f) { return f.access("/file", 8); });
  pair.same("rename flags", [](Frontend& f) { return f.rename("/file", "/new", RENAME_EXCHANGE | RENAME_NOREPLACE); });
  pair.same("symlink empty", [](Frontend& f) { return f.symlink("", "/new"); });
  pair.same("symlink 4095", [](Frontend& f) { return f.symlink(std::string(4095, 'x'), "/new"); });
  pair.same("symlink 4096", [](Frontend& f) { return f.symlink(std::string(4096, 'x'), "/new2"); });
  pair.same("tmpfile rdonly", [](Frontend& f) {
    return f.open("/dir", O_TMPFILE | O_RDONLY, 0600).number < 0 ? Outcome{-1} : Outcome{0};
  });
}

TEST_F(Errors, ExtendedAttributes) {
  const auto on = [&](const char* what, auto call) { pair.same(what, [&](Frontend& f) { return call(f); }); };
  on("create", [](Frontend& f) { return f.setxattr("/file", "user.a", "one", XATTR_CREATE); });
  on("create again", [](Frontend& f) { return f.setxattr("/file", "user.a", "two", XATTR_CREATE); });
  on("replace", [](Frontend& f) { return f.setxattr("/file", "user.a", "two", XATTR_REPLACE); });
  on("replace none", [](Frontend& f) { return f.setxattr("/file", "user.b", "two", XATTR_REPLACE); });
  on("get", [](Frontend& f) { return f.getxattr("/rel", "user.a"); });
  on("get none", [](Frontend& f) { return f.getxattr("/file", "user.none"); });
  on("get no space", [](Frontend& f) { return f.getxattr("/file", "nospace"); });
  on("set on link", [](Frontend& f) { return f.setxattr("/dirlink", "user.a", "x", 0); });
  on("name too long", [](Frontend& f) { return f.setxattr("/file", "user." + std::string(255, 'x'), "x", 0); });
  on("value too long", [](Frontend& f) { return f.setxattr("/file", "user.big", std::string(65537, 'x'), 0); });
  on("remove", [](Frontend& f) { return f.removexattr("/file", "user.a"); });
  on("remove again", [](Frontend& f) { return f.removexattr("/file", "user.a"); });
}

TEST_F(Errors, PathsBelowAnOpenDirectory) {
  const auto fd =
      static_cast<int>(pair.same("open", [](Frontend& f) { return f.open("/dir", O_RDONLY | O_DIRECTORY, 0); }).number);
  for (const char* path :
       {"inside", "sub", "../file", "none", "", ".", "up", "inside/x", "../rel", "../absdir/inside"}) {
    pair.same(std::string("openat ") + path, [&](Frontend& f) {
      const Outcome opened = f.open_at(fd, path, O_RDONLY, 0);
      if (opened.number < 0) return opened;
      const Outcome st = f.fstat(static_cast<int>(opened.number));
      f.close(static_cast<int>(opened.number));
      return st;
    });
  }
  pair.same("list", [&](Frontend& f) { return f.list(fd); });
  // A name made in a directory that was renamed is in the directory's new place. In a removed one, none can be made.
  pair.same("rename", [](Frontend& f) { return f.rename("/dir/sub", "/moved", 0); });
  const auto sub =
      static_cast<int>(pair.same("open", [](Frontend& f) { return f.open("/moved", O_RDONLY, 0); }).number);
  pair.same("rename", [](Frontend& f) { return f.rename("/moved", "/empty/deep", 0); });
  pair.same("create", [&](Frontend& f) { return f.open_at(sub, "new", O_RDWR | O_CREAT, 0600); });
  pair.same_tree("a file made below a directory that moved");
  pair.same("unlink", [](Frontend& f) { return f.unlink("/empty/deep/new"); });
  pair.same("rmdir", [](Frontend& f) { return f.rmdir("/empty/deep"); });
  pair.same("stat of what is gone", [&](Frontend& f) { return f.fstat(sub); });
  pair.same("gone", [&](Frontend& f) { return f.open_at(sub, "new", O_RDWR | O_CREAT, 0600); });
  pair.same("not a directory", [&](Frontend& f) {
    const auto file = static_cast<int>(f.open("/file", O_RDONLY, 0).number);
    return f.open_at(file, "x", O_RDONLY, 0);
  });
}

}  // namespace
}  // namespace spate::posix_test
