// SPDX-License-Identifier: Apache-2.0
// Each operation with each error that it can return.
#include "base/expect.h"
#include "server/meta/testing/fs_test.h"

namespace spate::meta {
namespace {

struct Case {
  const char* what;
  Errc expected;
  std::function<Errc(User&)> act;
};

/// /dir/{file,sub/}, /empty/, /link -> dir, /dangling -> nowhere, /loop -> loop, /fifo. root owns all of them, others
/// may write.
void furnish(User& root) {
  ASSERT_OK(root.mkdir("dir", 0777));
  ASSERT_OK(root.create("dir/file", 0666));
  ASSERT_OK(root.mkdir("dir/sub", 0777));
  ASSERT_OK(root.create("dir/sub/inner", 0666));
  ASSERT_OK(root.mkdir("empty", 0777));
  ASSERT_OK(root.symlink("dir", "link"));
  ASSERT_OK(root.symlink("nowhere", "dangling"));
  ASSERT_OK(root.symlink("loop", "loop"));
  ASSERT_OK(root.symlink("/dir", "rooted"));
}

std::vector<Attributes> state(User& user) {
  std::vector<Attributes> all;
  for (const char* path : {"", "dir", "dir/file", "dir/sub", "dir/sub/inner", "empty", "link", "dangling", "loop"}) {
    all.push_back(user.stat(path)->attributes);
  }
  return all;
}

void check_all(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    TestFs fs;
    User root(fs, root_user());
    furnish(root);
    const std::vector<Attributes> before = state(root);
    const Errc outcome = c.act(root);
    EXPECT_EQ(outcome, c.expected) << c.what << ": " << name(outcome);
    if (c.expected != Errc::kOk) EXPECT_EQ(state(root), before) << c.what << ": failed and left a trace";
  }
}

const std::string kLongName(256, 'n');
const std::string kLongPath(4097, '/');

TEST(MetaErrors, Lookup) {
  check_all({
      {"there", Errc::kOk, [](User& u) { return u.stat("dir/file").code(); }},
      {"the start", Errc::kOk, [](User& u) { return u.stat("").code(); }},
      {"slashes", Errc::kOk, [](User& u) { return u.stat("//dir///sub//").code(); }},
      {"dots", Errc::kOk, [](User& u) { return u.stat("dir/./sub/../file").code(); }},
      {"above the root", Errc::kOk, [](User& u) { return u.stat("../../dir").code(); }},
      {"through a link", Errc::kOk, [](User& u) { return u.stat("link/file").code(); }},
      {"missing", Errc::kNotFound, [](User& u) { return u.stat("dir/none").code(); }},
      {"missing on the way", Errc::kNotFound, [](User& u) { return u.stat("none/file").code(); }},
      {"through a file", Errc::kNotDirectory, [](User& u) { return u.stat("dir/file/x").code(); }},
      {"file with a slash", Errc::kNotDirectory, [](User& u) { return u.stat("dir/file/").code(); }},
      {"name too long", Errc::kNameTooLong, [](User& u) { return u.stat("dir/" + kLongName).code(); }},
      {"name too long on the way", Errc::kNameTooLong, [](User& u) { return u.stat(kLongName + "/x").code(); }},
      {"path too long", Errc::kNameTooLong, [](User& u) { return u.stat(kLongPath).code(); }},
      {"NUL", Errc::kInvalidArgument, [](User& u) { return u.stat(std::string("a\0b", 3)).code(); }},
      {"loop of links", Errc::kSymlinkLoop, [](User& u) { return u.stat("loop/x").code(); }},
      {"loop, last", Errc::kSymlinkLoop, [](User& u) { return u.stat("loop", wire::NamePath::kFollowLast).code(); }},
      {"dangling, followed", Errc::kNotFound,
       [](User& u) { return u.stat("dangling", wire::NamePath::kFollowLast).code(); }},
      {"dangling, not followed", Errc::kOk, [](User& u) { return u.stat("dangling").code(); }},
      {"absolute link", Errc::kCrossDevice, [](User& u) { return u.stat("rooted/file").code(); }},
      {"absolute link, rooted", Errc::kOk,
       [](User& u) { return u.stat("rooted/file", wire::NamePath::kRootedLinks).code(); }},
      {"stale handle", Errc::kStaleHandle, [](User& u) { return u.getattr(Handle(4711)).code(); }},
  });
}

TEST(MetaErrors, MkdirAndSymlink) {
  check_all({
      {"with a slash", Errc::kOk, [](User& u) { return u.mkdir("dir/../empty/new/").code(); }},
      {"exists", Errc::kExists, [](User& u) { return u.mkdir("dir/file").code(); }},
      {"the root", Errc::kExists, [](User& u) { return u.mkdir("/").code(); }},
      {"dot", Errc::kExists, [](User& u) { return u.mkdir("dir/.").code(); }},
      {"dot dot", Errc::kExists, [](User& u) { return u.mkdir("dir/..").code(); }},
      {"dangling link", Errc::kExists, [](User& u) { return u.mkdir("dangling").code(); }},
      {"no parent", Errc::kNotFound, [](User& u) { return u.mkdir("none/new").code(); }},
      {"parent is a file", Errc::kNotDirectory, [](User& u) { return u.mkdir("dir/file/new").code(); }},
      {"name too long", Errc::kNameTooLong, [](User& u) { return u.mkdir(kLongName).code(); }},
      {"mode", Errc::kInvalidArgument, [](User& u) { return u.mkdir("new", 010000).code(); }},
      {"symlink exists", Errc::kExists, [](User& u) { return u.symlink("x", "dir").code(); }},
      {"symlink with a slash", Errc::kNotFound, [](User& u) { return u.symlink("x", "new/").code(); }},
      {"empty target", Errc::kNotFound, [](User& u) { return u.symlink("", "new").code(); }},
      {"target too long", Errc::kNameTooLong, [](User& u) { return u.symlink(std::string(4096, 'x'), "new").code(); }},
      {"longest target", Errc::kOk, [](User& u) { return u.symlink(std::string(4095, 'x'), "empty/new").code(); }},
      {"NUL in the target", Errc::kInvalidArgument,
       [](User& u) { return u.symlink(std::string(1, '\0'), "new").code(); }},
  });
}

Errc create_node(User& user, FileType type, std::uint8_t flags = 0) {
  wire::CreateRequest request;
  request.where = at("empty/node");
  request.type = type;
  request.open_flags = flags;
  return user.ask<wire::OpenReply>(std::move(request)).code();
}

TEST(MetaErrors, Create) {
  constexpr std::uint8_t kOpenOrCreate = wire::kOpenRead | wire::kOpenWrite;
  constexpr std::uint8_t kFollow = wire::NamePath::kFollowLast;
  check_all({
      {"existing", Errc::kOk, [](User& u) { return u.create("dir/file", 0644, kOpenOrCreate).code(); }},
      {"existing, exclusive", Errc::kExists, [](User& u) { return u.create("dir/file").code(); }},
      {"existing directory", Errc::kIsDirectory, [](User& u) { return u.create("dir", 0644, kOpenOrCreate).code(); }},
      {"the start", Errc::kIsDirectory, [](User& u) { return u.create("", 0644, kOpenOrCreate).code(); }},
      {"with a slash", Errc::kIsDirectory, [](User& u) { return u.create("new/", 0644, kOpenOrCreate).code(); }},
      {"exclusive with a slash", Errc::kNotFound, [](User& u) { return u.create("new/").code(); }},
      {"existing with a slash", Errc::kIsDirectory,
       [](User& u) { return u.create("dir/file/", 0644, kOpenOrCreate).code(); }},
      {"opened exclusively with a slash", Errc::kIsDirectory,
       [](User& u) { return u.create("new/", 0644, kOpenOrCreate | wire::kOpenExclusive).code(); }},
      {"a link, not followed", Errc::kSymlinkLoop,
       [](User& u) { return u.create("dangling", 0644, kOpenOrCreate).code(); }},
      {"a link, exclusive", Errc::kExists,
       [](User& u) { return u.create("dangling", 0644, wire::kOpenExclusive, kFollow).code(); }},
      {"loop", Errc::kSymlinkLoop, [](User& u) { return u.create("loop", 0644, kOpenOrCreate, kFollow).code(); }},
      {"unknown flags", Errc::kInvalidArgument,
       [](User& u) { return u.create("new", 0644, wire::kOpenByUser).code(); }},
      {"no parent", Errc::kNotFound, [](User& u) { return u.create("none/new").code(); }},
      {"a directory", Errc::kInvalidArgument, [](User& u) { return create_node(u, FileType::kDirectory); }},
      {"a type unheard of", Errc::kInvalidArgument, [](User& u) { return create_node(u, static_cast<FileType>(77)); }},
      {"a fifo, opened", Errc::kInvalidArgument,
       [](User& u) { return create_node(u, FileType::kFifo, wire::kOpenRead); }},
  });
}

TEST(MetaErrors, LinkUnlinkRmdir) {
  check_all({
      {"link to a directory", Errc::kNotPermitted, [](User& u) { return u.link("dir", "new").code(); }},
      {"link exists", Errc::kExists, [](User& u) { return u.link("dir/file", "empty").code(); }},
      {"link of nothing", Errc::kNotFound, [](User& u) { return u.link("none", "new").code(); }},
      {"link with a slash", Errc::kNotFound, [](User& u) { return u.link("dir/file", "new/").code(); }},
      {"unlink nothing", Errc::kNotFound, [](User& u) { return u.unlink("none").code(); }},
      {"unlink a directory", Errc::kIsDirectory, [](User& u) { return u.unlink("empty").code(); }},
      {"unlink dot", Errc::kIsDirectory, [](User& u) { return u.unlink("dir/.").code(); }},
      {"unlink file/", Errc::kNotDirectory, [](User& u) { return u.unlink("dir/file/").code(); }},
      {"rmdir nothing", Errc::kNotFound, [](User& u) { return u.rmdir("none").code(); }},
      {"rmdir a file", Errc::kNotDirectory, [](User& u) { return u.rmdir("dir/file").code(); }},
      {"rmdir a link", Errc::kNotDirectory, [](User& u) { return u.rmdir("link").code(); }},
      {"rmdir full", Errc::kNotEmpty, [](User& u) { return u.rmdir("dir").code(); }},
      {"rmdir dot", Errc::kInvalidArgument, [](User& u) { return u.rmdir("empty/.").code(); }},
      {"rmdir dot dot", Errc::kNotEmpty, [](User& u) { return u.rmdir("dir/sub/..").code(); }},
      {"rmdir the root", Errc::kInvalidArgument, [](User& u) { return u.rmdir("/").code(); }},
  });
}

TEST(MetaErrors, Rename) {
  check_all({
      {"nothing", Errc::kNotFound, [](User& u) { return u.rename("none", "new").code(); }},
      {"onto itself", Errc::kOk, [](User& u) { return u.rename("dir/file", "dir/file").code(); }},
      {"dot", Errc::kInvalidArgument, [](User& u) { return u.rename("dir/.", "new").code(); }},
      {"to dot dot", Errc::kInvalidArgument, [](User& u) { return u.rename("empty", "dir/..").code(); }},
      {"to dot, no replace", Errc::kExists,
       [](User& u) { return u.rename("empty", "dir/.", wire::kRenameNoReplace).code(); }},
      {"file onto directory", Errc::kIsDirectory, [](User& u) { return u.rename("dir/file", "empty").code(); }},
      {"directory onto file", Errc::kNotDirectory, [](User& u) { return u.rename("empty", "dir/file").code(); }},
      {"onto a full directory", Errc::kNotEmpty, [](User& u) { return u.rename("empty", "dir").code(); }},
      {"into itself", Errc::kInvalidArgument, [](User& u) { return u.rename("dir", "dir/new").code(); }},
      {"below itself", Errc::kInvalidArgument, [](User& u) { return u.rename("dir", "dir/sub/new").code(); }},
      {"no replace", Errc::kExists,
       [](User& u) { return u.rename("dir/file", "link", wire::kRenameNoReplace).code(); }},
      {"exchange with nothing", Errc::kNotFound,
       [](User& u) { return u.rename("dir", "new", wire::kRenameExchange).code(); }},
      {"exchange with an ancestor", Errc::kInvalidArgument,
       [](User& u) { return u.rename("dir/sub/inner", "dir", wire::kRenameExchange).code(); }},
      {"exchange with a descendant", Errc::kInvalidArgument,
       [](User& u) { return u.rename("dir", "dir/sub", wire::kRenameExchange).code(); }},
      {"both flags", Errc::kInvalidArgument, [](User& u) { return u.rename("dir", "link", 3).code(); }},
      {"unknown flag", Errc::kInvalidArgument, [](User& u) { return u.rename("dir", "link", 4).code(); }},
      {"file/", Errc::kNotDirectory, [](User& u) { return u.rename("dir/file/", "new").code(); }},
      {"file to existing/, no replacing", Errc::kExists,
       [](User& u) { return u.rename("dir/file", "dir/file/", wire::kRenameNoReplace).code(); }},
      {"exchange with new/", Errc::kNotFound,
       [](User& u) { return u.rename("dir/file", "new/", wire::kRenameExchange).code(); }},
      {"file to new/", Errc::kNotDirectory, [](User& u) { return u.rename("dir/file", "new/").code(); }},
      {"name too long", Errc::kNameTooLong, [](User& u) { return u.rename("empty", kLongName).code(); }},
      {"nothing, to a name too long", Errc::kNotFound, [](User& u) { return u.rename("none", kLongName).code(); }},
      {"name too long, to no directory", Errc::kNotFound,
       [](User& u) { return u.rename(kLongName, "none/new").code(); }},
      {"dot, to a name too long", Errc::kInvalidArgument, [](User& u) { return u.rename("dir/.", kLongName).code(); }},
      {"file onto the directory above it", Errc::kNotEmpty, [](User& u) { return u.rename("dir/file", "dir").code(); }},
      {"file onto a directory far above it", Errc::kNotEmpty,
       [](User& u) { return u.rename("dir/sub/inner", "dir").code(); }},
  });
}

TEST(MetaErrors, Xattrs) {
  check_all({
      {"none", Errc::kNoAttribute, [](User& u) { return u.getxattr("dir", "user.a").code(); }},
      {"remove none", Errc::kNoAttribute, [](User& u) { return u.removexattr("dir", "user.a").code(); }},
      {"replace none", Errc::kNoAttribute, [](User& u) { return u.setxattr("dir", "user.a", "v", 2).code(); }},
      {"flags", Errc::kInvalidArgument, [](User& u) { return u.setxattr("dir", "user.a", "v", 3).code(); }},
      {"no name", Errc::kOutOfRange, [](User& u) { return u.setxattr("dir", "", "v").code(); }},
      {"long name", Errc::kOutOfRange, [](User& u) { return u.setxattr("dir", "user." + kLongName, "v").code(); }},
      {"large value", Errc::kOutOfRange,
       [](User& u) { return u.setxattr("dir", "user.a", std::string(65537, 'v')).code(); }},
      {"nothing after the dot", Errc::kInvalidArgument, [](User& u) { return u.setxattr("dir", "user.", "v").code(); }},
      {"another space", Errc::kNotSupported, [](User& u) { return u.setxattr("dir", "system.else", "v").code(); }},
      {"on a link", Errc::kNotPermitted, [](User& u) { return u.setxattr("link", "user.a", "v").code(); }},
      {"hint on a file", Errc::kInvalidArgument,
       [](User& u) { return u.setxattr("dir/file", "user.spate.strip_count", "1").code(); }},
      {"hint unheard of", Errc::kInvalidArgument,
       [](User& u) { return u.setxattr("dir", "user.spate.colour", "1").code(); }},
      {"hint out of range", Errc::kInvalidArgument,
       [](User& u) { return u.setxattr("dir", "user.spate.strip_bytes", "1").code(); }},
      {"hint no number", Errc::kInvalidArgument,
       [](User& u) { return u.setxattr("dir", "user.spate.strip_count", "1x").code(); }},
      {"target unheard of", Errc::kInvalidArgument,
       [](User& u) { return u.setxattr("dir", "user.spate.first_target", "5").code(); }},
      {"layout is fixed", Errc::kNotPermitted,
       [](User& u) { return u.setxattr("dir/file", "user.spate.layout", "x").code(); }},
  });
}

TEST(MetaErrors, Listing) {
  TestFs fs;
  User root(fs, root_user());
  furnish(root);
  EXPECT_ERRC(root.readdir(Handle(4711)), Errc::kStaleHandle);
  EXPECT_ERRC(root.readdir(root.stat("dir/file")->attributes.handle), Errc::kNotDirectory);
  EXPECT_ERRC(root.readdir(kRootHandle, 1ULL << 63U), Errc::kInvalidArgument);
  fs.reply_room = 100;
  EXPECT_ERRC(root.readdir(kRootHandle), Errc::kMessageTooBig);
}

}  // namespace
}  // namespace spate::meta
