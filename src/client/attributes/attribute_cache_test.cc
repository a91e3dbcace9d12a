// SPDX-License-Identifier: Apache-2.0
#include "client/attributes/attribute_cache_test.h"

#include <optional>

#include "base/expect.h"

namespace spate::client {
namespace {

TEST_F(AttributeCacheTest, AnswersWhatWasGrantedByPathAndByHandle) {
  EXPECT_FALSE(kept(at("d/f")));
  learn(file_reply());
  const auto found = cache.find_attributes(at("d//f"));
  ASSERT_OK(found);
  EXPECT_EQ((*found)->size, 5U);
  EXPECT_TRUE(kept({kDirectory, "f", 0}));
  EXPECT_TRUE(kept({kFile, "", 0}));
  EXPECT_FALSE(kept(at("d")));  // nobody asked for its attributes
  EXPECT_FALSE(kept(at("d/g")));
  for (const char* path : {"d/./f", "d/../d/f", "d/f/", "/"}) EXPECT_FALSE(kept(at(path))) << path;
  wire::LookupLeaseReply refused = file_reply();
  refused.granted = false;
  refused.steps[1].name = "g";
  learn(refused);
  EXPECT_FALSE(kept(at("d/g")));
}

TEST_F(AttributeCacheTest, KnowsThatANameIsNotThere) {
  wire::LookupLeaseReply reply = file_reply();
  reply.object.reset();
  reply.steps[1] = {kDirectory, "g", Handle(), FileType::kRegular};
  learn(reply);
  const auto found = cache.find_attributes(at("d/g"));
  ASSERT_NE(found, std::nullopt);
  EXPECT_ERRC(*found, Errc::kNotFound);
}

TEST_F(AttributeCacheTest, ReturnsASizeOnlyWhileNobodyWritesTheFile) {
  EXPECT_EQ(cache.known_size(kFile), std::nullopt);
  learn(file_reply(5));
  const auto size = cache.known_size(kFile);
  ASSERT_NE(size, std::nullopt);
  EXPECT_EQ(size->bytes, 5U);
  EXPECT_EQ(cache.known_size(kFile), size);
  cache.recalled(kFile);
  EXPECT_EQ(cache.known_size(kFile), std::nullopt);
  wire::LookupLeaseReply written = file_reply(5);
  written.object->attributes.size_known = false;
  learn(written);
  EXPECT_EQ(cache.known_size(kFile), std::nullopt);
}

TEST_F(AttributeCacheTest, EqualSizesOfDifferentChangesAreDistinguished) {
  learn(file_reply(5));
  const auto before = cache.known_size(kFile);
  cache.recalled(kFile);
  wire::LookupLeaseReply rewritten = file_reply(5);
  rewritten.object->attributes.ctime.ns += 1;
  learn(rewritten);
  EXPECT_NE(cache.known_size(kFile), before);
}

TEST_F(AttributeCacheTest, LeavesLinksToTheServer) {
  wire::LookupLeaseReply reply = file_reply();
  reply.steps[1].type = FileType::kSymlink;
  learn(reply);
  EXPECT_TRUE(kept(at("d/f")));
  EXPECT_FALSE(kept(at("d/f", wire::NamePath::kFollowLast)));
  EXPECT_FALSE(kept(at("d/f/x")));
}

TEST_F(AttributeCacheTest, ARecallDropsTheObjectAndTheNamesInIt) {
  learn(file_reply());
  cache.recalled(kFile);
  EXPECT_FALSE(kept(at("d/f")));
  learn(file_reply());
  cache.recalled(kDirectory);
  EXPECT_FALSE(kept(at("d/f")));
  EXPECT_TRUE(kept({kFile, "", 0}));
  EXPECT_EQ(cache.counters().recalls, 2U);
}

TEST_F(AttributeCacheTest, AnObjectRecalledDuringItsLookupIsNotKept) {
  const wire::LookupLeaseReply reply = file_reply();
  for (const Handle recalled : {kRootHandle, kDirectory, kFile}) {
    const auto lookup = cache.begin_lookup();
    cache.recalled(recalled);
    cache.end_lookup(lookup, &reply);
    EXPECT_FALSE(kept(at("d/f"))) << "after the recall of " << recalled.value;
  }
  const auto lookup = cache.begin_lookup();
  cache.recalled(Handle(99));
  cache.end_lookup(lookup, &reply);
  EXPECT_TRUE(kept(at("d/f")));
}

TEST_F(AttributeCacheTest, ALeaseEndsBeforeItEndsAtTheServer) {
  learn(file_reply());
  clock.advance(milliseconds(8999));
  EXPECT_TRUE(kept(at("d/f")));
  clock.advance(milliseconds(1));
  EXPECT_FALSE(kept(at("d/f")));
}

TEST_F(AttributeCacheTest, ALeaseCountsFromTheRequestAndNotFromTheAnswer) {
  const wire::LookupLeaseReply reply = file_reply();
  const auto lookup = cache.begin_lookup();
  clock.advance(seconds(5));
  cache.end_lookup(lookup, &reply);
  clock.advance(seconds(4));
  EXPECT_FALSE(kept(at("d/f")));
}

TEST_F(AttributeCacheTest, AnEventRenewsAttributesThatHaveNotExpired) {
  learn(file_reply());
  clock.advance(seconds(8));
  cache.heard(clock.now(), kTable, true);
  clock.advance(seconds(8));
  EXPECT_TRUE(kept(at("d/f")));
  cache.heard(clock.now(), kTable, false);  // there are more events
  clock.advance(seconds(2));
  EXPECT_FALSE(kept(at("d/f")));
  cache.heard(clock.now(), kTable, true);  // too late: it may have been changed in between
  EXPECT_FALSE(kept(at("d/f")));
}

TEST_F(AttributeCacheTest, AnExpiredLeaseIsNotRenewedByAnotherGrant) {
  learn(file_reply());
  clock.advance(seconds(20));
  wire::LookupLeaseReply other = file_reply();
  other.object->attributes.handle = Handle(12);
  other.steps[1] = {kDirectory, "g", Handle(12), FileType::kRegular};
  learn(other);
  EXPECT_TRUE(kept(at("d/g")));
  cache.heard(clock.now(), kTable, true);
  EXPECT_FALSE(kept(at("d/f")));
}

TEST_F(AttributeCacheTest, AnotherLeaseTableDropsEverything) {
  learn(file_reply());
  cache.heard(clock.now(), kTable + 1, true);
  EXPECT_FALSE(kept(at("d/f")));
}

TEST_F(AttributeCacheTest, NothingIsAnsweredWhileAnOwnChangeOfAnythingIsUnderWay) {
  learn(file_reply());
  {
    OwnChange change(cache, {});
    EXPECT_FALSE(kept(at("d/f")));
    change.end_without_effect();
  }
  EXPECT_TRUE(kept(at("d/f")));
}

TEST_F(AttributeCacheTest, ALookupThatBeganBeforeAnOwnChangeIsNotKept) {
  const wire::LookupLeaseReply reply = file_reply();
  const wire::CloseRequest close{kFile, Rights::kRead, {}, {}, {}, {}};
  for (const Handle touched : {kRootHandle, kDirectory, kFile}) {
    const auto lookup = cache.begin_lookup();
    {
      OwnChange change(cache, plan_of(close));
      change.end({true, {touched}, {}}, {});
    }
    cache.end_lookup(lookup, &reply);
    EXPECT_FALSE(kept(at("d/f")));
  }
  learn(reply);
  EXPECT_TRUE(kept(at("d/f")));
}

TEST_F(AttributeCacheTest, DuringAnOwnChangeUntouchedObjectsAreAnswered) {
  wire::LookupLeaseReply other = file_reply();
  other.object->attributes.handle = Handle(12);
  other.steps[1].name = "g";
  other.steps[1].object = Handle(12);
  learn(file_reply());
  learn(other);
  wire::UnlinkRequest unlink;
  unlink.where = {kDirectory, "f", 0};
  OwnChange change(cache, plan_of(unlink));
  EXPECT_TRUE(kept(at("d/g")));
  EXPECT_FALSE(kept(at("d/f")));
  EXPECT_FALSE(kept({kFile, "", 0}));  // its link count changes
  // From now on the name may lead to another object, which the change would touch.
  cache.recalled(kDirectory);
  EXPECT_FALSE(kept({Handle(12), "", 0}));
  change.end_without_effect();
  EXPECT_TRUE(kept({Handle(12), "", 0}));
}

TEST_F(AttributeCacheTest, AnOwnChangeByANameWhoseLeaseExpiresMayTouchAnything) {
  learn(file_reply());
  wire::UnlinkRequest unlink;
  unlink.where = {kDirectory, "f", 0};
  OwnChange change(cache, plan_of(unlink));
  clock.advance(seconds(8));
  wire::LookupLeaseReply other = file_reply();
  other.object->attributes.handle = Handle(12);
  other.steps = {{kRootHandle, "x", Handle(12), FileType::kRegular}};
  learn(other);
  EXPECT_TRUE(kept(at("x")));
  clock.advance(seconds(2));  // others may give the name to another object
  EXPECT_FALSE(kept(at("x")));
  learn(file_reply());  // the name's present object says nothing about that time
  EXPECT_FALSE(kept(at("x")));
  change.end_without_effect();
}

TEST_F(AttributeCacheTest, AnOwnChangeByANameThatAnotherOneMovesMayTouchAnything) {
  learn(file_reply());
  wire::LookupLeaseReply other = file_reply();
  other.object->attributes.handle = Handle(12);
  other.steps[1].name = "g";
  other.steps[1].object = Handle(12);
  learn(other);
  wire::RenameRequest rename;
  rename.from = {kDirectory, "g", 0};
  rename.to = {kDirectory, "f", 0};
  wire::UnlinkRequest unlink;
  unlink.where = {kDirectory, "f", 0};
  OwnChange removal(cache, plan_of(unlink));
  {
    OwnChange move(cache, plan_of(rename));
    move.end({true, {kDirectory, kFile, Handle(12)}, {{kDirectory, "f"}, {kDirectory, "g"}}}, {});
  }
  wire::LookupLeaseReply moved = other;  // the remove may concern this object
  moved.steps[1].name = "f";
  learn(moved);
  EXPECT_FALSE(kept({Handle(12), "", 0}));
  removal.end_without_effect();
  EXPECT_TRUE(kept({Handle(12), "", 0}));
}

TEST_F(AttributeCacheTest, AnOwnChangeOfAnUnknownObjectMayTouchAnything) {
  learn(file_reply());
  wire::UnlinkRequest unlink;
  unlink.where = {kDirectory, "unknown", 0};
  wire::RenameRequest rename;
  rename.from = {kRootHandle, "a/path", 0};
  rename.to = {kDirectory, "f", 0};
  for (const ChangePlan& plan : {plan_of(unlink), plan_of(rename)}) {
    OwnChange change(cache, plan);
    EXPECT_FALSE(kept(at("d/f")));
    change.end_without_effect();
  }
  wire::CreateRequest create;
  create.where = unlink.where;
  create.open_flags = wire::kOpenExclusive;  // fails if the name exists
  OwnChange change(cache, plan_of(create));
  EXPECT_TRUE(kept(at("d/f")));
  EXPECT_FALSE(kept(at("d/unknown")));
  change.end_without_effect();
}

TEST_F(AttributeCacheTest, AnOwnChangeDropsWhatItTouched) {
  learn(file_reply());
  wire::LookupLeaseReply other = file_reply();
  other.object->attributes.handle = Handle(12);
  other.steps[1] = {kDirectory, "g", Handle(12), FileType::kRegular};
  learn(other);
  {
    OwnChange change(cache, {});
    wire::Touched touched{true, {kDirectory, kFile}, {{kDirectory, "f"}}};
    change.end(touched, {});
  }
  EXPECT_FALSE(kept(at("d/f")));
  EXPECT_FALSE(kept({kFile, "", 0}));
  EXPECT_TRUE(kept(at("d/g")));
  {
    OwnChange change(cache, {});
    wire::Touched touched{true, {kDirectory}, {}};  // perhaps its mode
    change.end(touched, {});
  }
  EXPECT_FALSE(kept(at("d/g")));
}

TEST_F(AttributeCacheTest, AChangeWithUnknownEffectDropsEverything) {
  learn(file_reply());
  {
    const OwnChange change(cache, {});
  }
  EXPECT_FALSE(kept(at("d/f")));
}

TEST_F(AttributeCacheTest, TheSizeOfAFileThatIsBeingWrittenIsNotAnswered) {
  wire::LookupLeaseReply reply = file_reply();
  reply.object->attributes.size_known = false;
  learn(reply);
  EXPECT_FALSE(kept(at("d/f")));
  EXPECT_NE(cache.find(at("d/f")), std::nullopt);  // its place and its mode
}

TEST_F(AttributeCacheTest, IsBounded) {
  AttributeCache small({true, 16}, clock);
  for (std::uint64_t i = 0; i < 100; ++i) {
    wire::LookupLeaseReply reply = file_reply();
    reply.object->attributes.handle = Handle(1000 + i);
    reply.steps[1] = {kDirectory, std::to_string(i), Handle(1000 + i), FileType::kRegular};
    small.end_lookup(small.begin_lookup(), &reply);
  }
  std::size_t there = 0;
  for (std::uint64_t i = 0; i < 100; ++i) there += small.find({Handle(1000 + i), "", 0}).has_value() ? 1U : 0U;
  EXPECT_LE(there, 16U);
  EXPECT_GT(there, 0U);
}

TEST_F(AttributeCacheTest, ACacheThatIsTurnedOffKeepsNothing) {
  AttributeCache off({false, 16}, clock);
  const wire::LookupLeaseReply reply = file_reply();
  off.end_lookup(off.begin_lookup(), &reply);
  EXPECT_EQ(off.find(at("d/f")), std::nullopt);
  EXPECT_FALSE(off.wants_events());
}

}  // namespace
}  // namespace spate::client
