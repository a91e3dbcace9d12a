// SPDX-License-Identifier: Apache-2.0
// Copies of the cache's answers that others keep, and when the cache has them dropped.
#include <gmock/gmock.h>

#include <map>
#include <optional>
#include <set>

#include "base/expect.h"
#include "client/attributes/attribute_cache_test.h"

namespace spate::client {
namespace {

/// Records the calls that it gets.
class NotedCopies final : public Copies {
 public:
  Names takes_names() const override { return names; }
  bool begin_attributes(Handle object, MonoTime until) override {
    if (room) given[object] = until;
    return room;
  }
  void drop_attributes(Handle object) override { dropped.insert(object); }
  void drop_names() override { ++names_dropped; }
  bool when_dropped(UniqueFunction<void()>) override { return false; }

  Names names = Names::kOfAll;
  bool room = true;
  std::map<Handle, MonoTime> given;
  std::set<Handle> dropped;
  int names_dropped = 0;
};

class KernelCopiesOfAttributesTest : public AttributeCacheTest {
 protected:
  bool copy(Handle object) { return copied.copy_attributes(object).has_value(); }
  bool copy(const std::string& name, Handle object) { return copied.copy_name(kDirectory, name, object).count() > 0; }
  void learn(const wire::LookupLeaseReply& reply) { copied.end_lookup(copied.begin_lookup(), &reply); }
  void learn_and_copy() {
    learn(file_reply());
    ASSERT_TRUE(copy(kFile));
    ASSERT_TRUE(copy("f", kFile));
  }
  /// Makes an own change that gets no leases.
  template <typename Request>
  void change(const Request& request, const wire::Touched& touched) {
    OwnChange change(copied, plan_of(request));
    change.end(touched, {});
  }

  /// Makes the directory "d", which is delegated to this client.
  void make_delegated() {
    wire::MkdirRequest request;
    request.where = at("d");
    OwnChange own(copied, plan_of(request));
    wire::Granted granted{true, kTable, 10000, 1, {}, {{kRootHandle, "d", kDirectory, FileType::kDirectory}}};
    granted.objects.resize(2);
    granted.objects[0].object.attributes.handle = kRootHandle;
    granted.objects[1].object.attributes.handle = kDirectory;
    using Granted = wire::GrantedObject;
    granted.objects[0].flags = Granted::kSearchable;
    granted.objects[1].flags = Granted::kSearchable | Granted::kNeverUsed | Granted::kDelegated;
    for (Granted& object : granted.objects) object.object.attributes.type = FileType::kDirectory;
    own.end({true, {kRootHandle, kDirectory}, {{kRootHandle, "d"}}}, granted);
  }

  NotedCopies copies;
  AttributeCache copied{{true, 1000, &copies}, clock};
};

TEST_F(KernelCopiesOfAttributesTest, OnlyWhatTheCacheKeepsIsCopied) {
  EXPECT_FALSE(copy(kFile));
  learn_and_copy();
  EXPECT_FALSE(copy(kDirectory));  // the server never sent its attributes
  EXPECT_FALSE(copy("f", Handle(12)));
  EXPECT_FALSE(copy("f", Handle()));
  EXPECT_FALSE(copy("g", Handle()));
  wire::LookupLeaseReply none = file_reply();
  none.object.reset();
  none.steps[1] = {kDirectory, "g", Handle(), FileType::kRegular};
  learn(none);
  EXPECT_TRUE(copy("g", Handle()));
  EXPECT_LE(copied.copy_name(Handle(99), "g", Handle()).count(), 0);
  EXPECT_EQ(cache.copy_attributes(kFile), std::nullopt);  // nobody keeps copies of the answers of that cache
}

TEST_F(KernelCopiesOfAttributesTest, AttributesOfAFileThatIsBeingWrittenAreNotCopied) {
  wire::LookupLeaseReply reply = file_reply();
  reply.object->attributes.size_known = false;
  learn(reply);
  EXPECT_FALSE(copy(kFile));
  EXPECT_TRUE(copy("f", kFile));  // the name does not change while the file is written
}

TEST_F(KernelCopiesOfAttributesTest, CopiesExpireBeforeTheLease) {
  learn(file_reply());  // a lease of 10 s, of which 9 s are used
  const auto before = copied.copy_attributes(kFile);
  ASSERT_NE(before, std::nullopt);
  EXPECT_EQ(before->good_for, seconds(8));
  EXPECT_EQ(copies.given.at(kFile), clock.now() + seconds(10));  // when the lease ends for the server
  clock.advance(seconds(3));
  EXPECT_EQ(copied.copy_name(kDirectory, "f", kFile), seconds(5));
  copied.heard(clock.now(), kTable, true);
  EXPECT_EQ(copied.copy_name(kDirectory, "f", kFile), seconds(8));
  clock.advance(milliseconds(8995));
  EXPECT_OK(copied.find_attributes(at("d/f")));
  EXPECT_FALSE(copy(kFile));
  EXPECT_FALSE(copy("f", kFile));
}

TEST_F(KernelCopiesOfAttributesTest, OnlyNamesAndAttributesThatCanBeDroppedAreCopied) {
  learn(file_reply());
  copies.names = Copies::Names::kOfNone;
  EXPECT_FALSE(copy("f", kFile));
  copies.room = false;
  EXPECT_FALSE(copy(kFile));
  copied.recalled(kFile);
  copied.recalled(kDirectory);
  EXPECT_THAT(copies.dropped, testing::IsEmpty());
  EXPECT_EQ(copies.names_dropped, 0);
}

TEST_F(KernelCopiesOfAttributesTest, ARecallOfTheLeaseDropsCopies) {
  learn_and_copy();
  copied.recalled(kFile);
  EXPECT_EQ(copies.dropped, std::set<Handle>{kFile});
  EXPECT_EQ(copies.names_dropped, 0);  // the name still leads to the same object
  copied.recalled(kDirectory);
  EXPECT_EQ(copies.names_dropped, 1);
  learn(file_reply());
  copied.recalled(kDirectory);  // no name has been copied since
  copied.recalled(kFile);
  EXPECT_EQ(copies.names_dropped, 1);
}

TEST_F(KernelCopiesOfAttributesTest, ClearingTheCacheDropsCopies) {
  const auto all_gone = [this](const char* when) {
    EXPECT_EQ(copies.dropped, std::set<Handle>{kFile}) << when;
    EXPECT_EQ(copies.names_dropped, 1) << when;
    copies.dropped.clear();
    copies.names_dropped = 0;
  };
  learn_and_copy();
  copied.clear();
  all_gone("the session has ended");
  learn_and_copy();
  copied.server_is(kTable + 1);
  all_gone("the server has restarted");
  copied.server_is(kTable);
  learn_and_copy();
  copied.heard(clock.now(), kTable + 1, true);
  all_gone("another process of the server answers");
  learn_and_copy();
  {
    const OwnChange unknown(copied, {});
  }
  all_gone("nobody knows what was changed");
  learn_and_copy();
  clock.advance(seconds(20));
  copied.heard(clock.now(), kTable, true);
  all_gone("the leases have run out");
}

TEST_F(KernelCopiesOfAttributesTest, EvictionFromTheCacheDropsCopies) {
  learn_and_copy();
  wire::LookupLeaseReply other = file_reply();
  for (std::uint64_t i = 0; i < 2000; ++i) {
    other.object->attributes.handle = Handle(1000 + i);
    other.steps = {{Handle(100000 + i), "x", Handle(1000 + i), FileType::kRegular}};
    learn(other);
  }
  EXPECT_EQ(copied.find_attributes({kFile, "", 0}), std::nullopt);
  EXPECT_EQ(copies.dropped, std::set<Handle>{kFile});
  EXPECT_EQ(copies.names_dropped, 1);
}

TEST_F(KernelCopiesOfAttributesTest, AnOwnChangeDropsCopiedAttributesBeforeItIsSent) {
  learn_and_copy();
  wire::SetattrRequest request;
  request.where = {kFile, "", 0};
  OwnChange own(copied, plan_of(request));
  EXPECT_EQ(copies.dropped, std::set<Handle>{kFile});
  EXPECT_FALSE(copy(kFile));
  EXPECT_TRUE(copy("f", kFile));
  own.end_without_effect();
  EXPECT_TRUE(copy(kFile));
}

TEST_F(KernelCopiesOfAttributesTest, AnOwnChangeThatMayTouchAnythingDropsAllCopiedAttributes) {
  learn_and_copy();
  wire::UnlinkRequest request;
  request.where = {kDirectory, "unknown", 0};
  OwnChange own(copied, plan_of(request));
  EXPECT_EQ(copies.dropped, std::set<Handle>{kFile});
  EXPECT_FALSE(copy("f", kFile));
  own.end_without_effect();
}

TEST_F(KernelCopiesOfAttributesTest, ARecallOfTheNameOfAnOwnChangeDropsAllCopiedAttributes) {
  learn_and_copy();
  wire::LookupLeaseReply other = file_reply();
  other.object->attributes.handle = Handle(12);
  other.steps[1] = {kDirectory, "g", Handle(12), FileType::kRegular};
  learn(other);
  ASSERT_TRUE(copy(Handle(12)));
  wire::UnlinkRequest request;
  request.where = {kDirectory, "f", 0};
  OwnChange own(copied, plan_of(request));
  EXPECT_EQ(copies.dropped, std::set<Handle>{kFile});
  copied.recalled(kDirectory);  // "f" may lead to another object from now on
  EXPECT_EQ(copies.dropped, (std::set<Handle>{kFile, Handle(12)}));
  own.end_without_effect();
}

TEST_F(KernelCopiesOfAttributesTest, TheAnswerOfAnOwnChangeDropsTheCopiedAttributesThatItNames) {
  learn_and_copy();
  wire::SetattrRequest request;
  request.where = {Handle(55), "", 0};
  change(request, {true, {Handle(55), kFile}, {}});
  EXPECT_EQ(copies.dropped, std::set<Handle>{kFile});
  EXPECT_EQ(copies.names_dropped, 0);
}

TEST_F(KernelCopiesOfAttributesTest, AnOwnChangeThatTheKernelFollowsItselfKeepsCopiedNames) {
  learn_and_copy();
  for (const Handle object : {Handle(), Handle(12)}) {  // the name is removed, then given to another object
    wire::UnlinkRequest request;
    request.where = {kDirectory, "f", 0};
    OwnChange own(copied, plan_of(request));
    wire::Granted granted;
    granted.granted = true;
    granted.table = kTable;
    granted.lease_ms = 10000;
    granted.order = 1 + object.value;
    granted.objects.resize(1);
    granted.objects[0].object.attributes.handle = kDirectory;
    granted.objects[0].object.attributes.type = FileType::kDirectory;
    granted.objects[0].flags = wire::GrantedObject::kSearchable;
    granted.names = {{kDirectory, "f", object, FileType::kRegular}};
    own.end({true, {kDirectory}, {{kDirectory, "f"}}}, granted);
    EXPECT_TRUE(copy("f", object));
  }
  EXPECT_EQ(copies.names_dropped, 0);
  copied.recalled(kDirectory);
  EXPECT_EQ(copies.names_dropped, 1);
}

TEST_F(KernelCopiesOfAttributesTest, SomeHoldersGetOnlyNamesInDelegatedDirectories) {
  copies.names = Copies::Names::kOfDelegated;
  learn(file_reply());
  EXPECT_FALSE(copy("f", kFile)) << "the directory is not delegated";
  make_delegated();
  EXPECT_TRUE(copy("new", Handle())) << "the directory is delegated";
  copied.recalled(kDirectory);
  EXPECT_EQ(copies.names_dropped, 1);
  learn(file_reply());
  EXPECT_FALSE(copy("f", kFile)) << "it is delegated no more";
}

TEST_F(KernelCopiesOfAttributesTest, NamesOfADirectoryThatTheClientRemovesKeepTheOthersCopies) {
  make_delegated();
  ASSERT_TRUE(copy("none", Handle())) << "the directory is empty";
  wire::RmdirRequest request;
  request.where = at("d");
  change(request, {true, {kRootHandle, kDirectory}, {{kRootHandle, "d"}}});
  EXPECT_FALSE(copy("none", Handle())) << "the directory is gone";
  EXPECT_EQ(copies.names_dropped, 0);
}

TEST_F(KernelCopiesOfAttributesTest, ANameThatLeadsElsewhereDropsItsCopy) {
  learn_and_copy();
  wire::LookupLeaseReply other = file_reply();
  other.object->attributes.handle = Handle(12);
  other.steps[1].object = Handle(12);
  learn(other);
  EXPECT_EQ(copies.names_dropped, 1);
}

TEST_F(KernelCopiesOfAttributesTest, AnOwnRenameKeepsCopiedNamesUntilTheTargetDirectoryIsRecalled) {
  learn_and_copy();
  wire::RenameRequest request;
  request.from = {kDirectory, "f", 0};
  request.to = at("f");
  change(request, {true, {kDirectory, kRootHandle, kFile}, {{kDirectory, "f"}, {kRootHandle, "f"}}});
  EXPECT_EQ(copies.names_dropped, 0);
  copied.recalled(kRootHandle);  // no name was copied there, but the copy was moved there
  EXPECT_EQ(copies.names_dropped, 1);
}

TEST_F(KernelCopiesOfAttributesTest, AnOwnRenameIntoADirectoryWithAShorterLeaseDropsCopiedNames) {
  learn(file_reply());
  clock.advance(seconds(4));
  wire::LookupLeaseReply later = file_reply();
  later.steps.erase(later.steps.begin());
  learn(later);
  ASSERT_TRUE(copy("f", kFile));  // used for 8 s, and the root's lease lasts 5 s more
  wire::RenameRequest request;
  request.from = {kDirectory, "f", 0};
  request.to = at("f");
  change(request, {true, {kDirectory, kRootHandle, kFile}, {{kDirectory, "f"}, {kRootHandle, "f"}}});
  EXPECT_EQ(copies.names_dropped, 1);
}

TEST_F(KernelCopiesOfAttributesTest, AnOwnRenameKeepsCopiedNamesIfTheNewDirectorysLeaseLastsAsLong) {
  learn_and_copy();
  clock.advance(seconds(4));
  copied.heard(clock.now(), kTable, true);  // renews all leases
  wire::RenameRequest request;
  request.from = {kDirectory, "f", 0};
  request.to = at("f");
  change(request, {true, {kDirectory, kRootHandle, kFile}, {{kDirectory, "f"}, {kRootHandle, "f"}}});
  EXPECT_EQ(copies.names_dropped, 0);
  copied.recalled(kRootHandle);
  EXPECT_EQ(copies.names_dropped, 1);
}

TEST_F(KernelCopiesOfAttributesTest, AnOwnRenameIntoADirectoryWithoutALeaseDropsCopiedNames) {
  learn_and_copy();
  constexpr Handle kElsewhere{77};
  wire::RenameRequest request;
  request.from = {kDirectory, "f", 0};
  request.to = {kElsewhere, "f", 0};
  change(request, {true, {kDirectory, kElsewhere, kFile}, {{kDirectory, "f"}, {kElsewhere, "f"}}});
  EXPECT_EQ(copies.names_dropped, 1);
}

}  // namespace
}  // namespace spate::client
