// SPDX-License-Identifier: Apache-2.0
// The parent of an object that is not a directory: a directory that has a name of it, or unknown (docs/disk-meta.md,
// "What holds").
#include "base/expect.h"
#include "server/meta/testing/audit_test.h"

namespace spate::meta {
namespace {

class MetaParents : public RoleTest {
 public:
  MetaParents() : client(connect(root_user())) {
    make_directory("a");
    make_directory("b");
    a = handle_of("a");
    b = handle_of("b");
  }
  ~MetaParents() override { Audit(*this).check(); }

  void make_directory(std::string path) {
    wire::MkdirRequest request;
    request.where = at(std::move(path));
    request.attributes.mode = 0755;
    EXPECT_OK(asked<wire::MkdirReply>(client, std::move(request)));
  }
  void link(std::string existing, std::string path) {
    wire::LinkRequest request;
    request.existing = at(std::move(existing));
    request.where = at(std::move(path));
    EXPECT_OK(asked<wire::LinkReply>(client, std::move(request)));
  }
  void unlink(std::string path) {
    wire::UnlinkRequest request;
    request.where = at(std::move(path));
    EXPECT_OK(asked<wire::UnlinkReply>(client, std::move(request)));
  }
  void rename(std::string from, std::string to, std::uint8_t flags = 0) {
    EXPECT_OK(asked<wire::RenameReply>(client, rename_request(std::move(from), std::move(to), flags)));
  }
  Handle handle_of(std::string path) {
    const auto attributes = stat(client, std::move(path));
    EXPECT_OK(attributes);
    return attributes ? attributes->handle : Handle();
  }
  Handle parent_of(std::string path) { return inode(handle_of(std::move(path))).parent; }

  TestClient client;
  Handle a;
  Handle b;
};

TEST_F(MetaParents, EachKindOfObjectKnowsTheDirectoryThatItWasMadeIn) {
  make_file(client, "a/file", 0);
  wire::SymlinkRequest symlink;
  symlink.where = at("a/link");
  symlink.target = "file";
  EXPECT_OK(asked<wire::SymlinkReply>(client, std::move(symlink)));
  wire::CreateRequest fifo;
  fifo.where = at("b/fifo");
  fifo.type = FileType::kFifo;
  fifo.attributes.mode = 0600;
  EXPECT_OK(asked<wire::CreateReply>(client, std::move(fifo)));
  EXPECT_EQ(parent_of("a/file"), a);
  EXPECT_EQ(parent_of("a/link"), a);
  EXPECT_EQ(parent_of("b/fifo"), b);
}

TEST_F(MetaParents, ARenameTakesTheParentWithIt) {
  make_file(client, "a/file", 0);
  rename("a/file", "a/other");
  EXPECT_EQ(parent_of("a/other"), a);
  rename("a/other", "b/file");
  EXPECT_EQ(parent_of("b/file"), b);
  make_file(client, "a/file", 0);
  rename("a/file", "b/file", wire::kRenameExchange);
  EXPECT_EQ(parent_of("a/file"), a);
  EXPECT_EQ(parent_of("b/file"), b);
  rename("a/file", "b/file");  // replaces the other one
  EXPECT_EQ(parent_of("b/file"), b);
}

TEST_F(MetaParents, AHardLinkLeavesTheParent) {
  make_file(client, "a/file", 0);
  link("a/file", "b/link");
  EXPECT_EQ(parent_of("b/link"), a);
  EXPECT_EQ(inode(handle_of("b/link")).second_parent, b);
  rename("b/link", "link");  // this name is not the one in the parent
  EXPECT_EQ(parent_of("link"), a);
  EXPECT_EQ(inode(handle_of("link")).second_parent, kRootHandle);
  unlink("link");
  EXPECT_EQ(parent_of("a/file"), a);
  EXPECT_EQ(inode(handle_of("a/file")).second_parent, Handle());
}

/// Many programs give a finished file its name so.
TEST_F(MetaParents, ALinkAndAnUnlinkOfTheOldNameAreAsARename) {
  make_file(client, "a/temporary", 0);
  link("a/temporary", "a/final");
  unlink("a/temporary");
  EXPECT_EQ(parent_of("a/final"), a);
  link("a/final", "b/elsewhere");
  unlink("a/final");
  EXPECT_EQ(parent_of("b/elsewhere"), b);
}

TEST_F(MetaParents, TheParentIsUnknownWhenNoKnownNameIsLeft) {
  make_file(client, "a/file", 0);
  link("a/file", "b/link");
  link("a/file", "third");
  unlink("b/link");
  unlink("a/file");
  EXPECT_EQ(parent_of("third"), Handle());
  link("third", "a/fourth");  // to take this one would be a guess
  EXPECT_EQ(parent_of("third"), Handle());
  unlink("a/fourth");
  rename("third", "b/only");  // the only name: now it is known again
  EXPECT_EQ(parent_of("b/only"), b);
}

TEST_F(MetaParents, AReplacedNameIsALostOne) {
  make_file(client, "a/file", 0);
  link("a/file", "b/link");
  make_file(client, "b/new", 0);
  rename("b/new", "a/file");
  EXPECT_EQ(parent_of("a/file"), a);
  EXPECT_EQ(parent_of("b/link"), b);
}

TEST_F(MetaParents, ATemporaryFileHasNoParentBeforeItHasAName) {
  wire::CreateRequest request;
  request.where = at("a");
  request.attributes.mode = 0600;
  request.open_flags = wire::kOpenWrite | wire::kOpenTemporary;
  const auto made = asked<wire::CreateReply>(client, std::move(request));
  ASSERT_OK(made);
  const Handle handle = made->object.attributes.handle;
  EXPECT_EQ(inode(handle).parent, Handle());
  wire::LinkRequest name;
  name.existing.start = handle;
  name.where = at("b/named");
  EXPECT_OK(asked<wire::LinkReply>(client, std::move(name)));
  EXPECT_EQ(inode(handle).parent, b);
  unlink("b/named");  // it is still open
  EXPECT_EQ(inode(handle).parent, Handle());
}

}  // namespace
}  // namespace spate::meta
