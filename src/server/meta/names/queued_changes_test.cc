// SPDX-License-Identifier: Apache-2.0
// Queued changes: each is made once, with the handle and the time that its client has given it.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "model/defect.h"
#include "server/meta/testing/audit_test.h"
#include "server/meta/testing/queue_test.h"

namespace spate::meta {
namespace {

using std::chrono::milliseconds;
using testing::Each;
using testing::ElementsAre;

class MetaQueues : public QueueTest {
 protected:
  Queueing q = queueing(root_user());
};

TEST_F(MetaQueues, ChangesAreMadeWithTheHandlesOfTheirClient) {
  const Handle d = q.unused;
  const Handle f(d.value + 1);
  const auto reply = send(q, {mkdir(q, kRootHandle, "d"), create(q, d, "f", kRW | wire::kOpenExclusive),
                              symlink(q, d, "l"), chmod(f, 0600), close(f, Rights::kReadWrite)});
  EXPECT_THAT(statuses(reply), Each(Errc::kOk));
  EXPECT_EQ(stat(q.client, "d")->handle, d);
  const auto file = stat(q.client, "d/f");
  ASSERT_OK(file);
  EXPECT_EQ(file->handle, f);
  EXPECT_EQ(file->mode, 0600U);
  EXPECT_EQ(stat(q.client, "d/l")->handle, Handle(d.value + 2));
  const auto opened = wire::decode_body<wire::CreateReply>(reply->answers[1].body);
  ASSERT_OK(opened);
  EXPECT_EQ(opened->capability.handle, f);
  Audit audit(*this);
  audit.check();
  EXPECT_THAT(audit.opens, testing::IsEmpty());
}

TEST_F(MetaQueues, NoChangeIsMadeTwice) {
  const std::vector<wire::QueuedChange> changes = {mkdir(q, kRootHandle, "d"), mkdir(q, kRootHandle, "e")};
  ASSERT_THAT(statuses(send(q, 1, changes)), Each(Errc::kOk));
  ASSERT_OK(asked<wire::Empty>(q.client, wire::RmdirRequest{at("d")}));
  for (const bool restarted : {false, true}) {
    if (restarted) restart();
    const auto again = send(q, 1, changes);
    EXPECT_THAT(statuses(again), Each(Errc::kOk));
    for (const wire::BatchedAnswer& answer : again->answers) EXPECT_THAT(answer.body, testing::IsEmpty());
    EXPECT_ERRC(stat(q.client, "d"), Errc::kNotFound);
    EXPECT_OK(stat(q.client, "e"));
  }
  // The later part of a request may be new.
  const auto more = send(q, 2, {changes[1], mkdir(q, kRootHandle, "f")});
  EXPECT_THAT(statuses(more), Each(Errc::kOk));
  EXPECT_THAT(more->answers[0].body, testing::IsEmpty());
  EXPECT_THAT(more->answers[1].body, testing::Not(testing::IsEmpty()));
}

TEST_F(MetaQueues, ChangesThatAreMadeTwiceAreFound) {
  ASSERT_THAT(statuses(send(q, 1, {create(q, kRootHandle, "f")})), Each(Errc::kOk));
  const Handle file = stat(q.client, "f")->handle;
  for (const Defect defect : {Defect::kNone, Defect::kQueuedTwice}) {
    planted_defect = defect;
    const std::uint64_t before = inode(file).attributes.version;
    const wire::QueuedChange change = chmod(file, 0600);
    const std::uint64_t number = defect == Defect::kNone ? 2 : 3;
    std::ignore = send(q, number, {change});
    std::ignore = send(q, number, {change});
    EXPECT_EQ(inode(file).attributes.version - before, defect == Defect::kNone ? 1U : 2U) << "the plant is not found";
  }
  planted_defect = Defect::kNone;
}

TEST_F(MetaQueues, CopiesOfARequestAtTheSameTimeAreMadeOnce) {
  const wire::QueuedChangesRequest request{1, {create(q, kRootHandle, "f"), chmod(Handle(q.unused.value - 1), 0600)}};
  auto one = begin<wire::QueuedChangesReply>(q.client, request, no_id());
  auto two = begin<wire::QueuedChangesReply>(q.client, request, no_id());
  while (!one->result || !two->result) pass_time();
  EXPECT_THAT(statuses(*one->result), Each(Errc::kOk));
  EXPECT_THAT(statuses(*two->result), Each(Errc::kOk));
  const auto file = stat(q.client, "f");
  ASSERT_OK(file);
  EXPECT_EQ(inode(file->handle).attributes.version, 2U);
}

TEST_F(MetaQueues, AGapInTheNumbersIsRefusedUnlessTheServerWasStartedSince) {
  ASSERT_THAT(statuses(send(q, {mkdir(q, kRootHandle, "d")})), Each(Errc::kOk));
  EXPECT_ERRC(send(q, 3, {mkdir(q, kRootHandle, "e")}), Errc::kProtocol);
  EXPECT_ERRC(send(q, 0, {mkdir(q, kRootHandle, "e")}), Errc::kInvalidArgument);
  EXPECT_ERRC(send(q, UINT64_MAX, {mkdir(q, kRootHandle, "e")}), Errc::kInvalidArgument);
  restart();
  EXPECT_THAT(statuses(send(q, 3, {mkdir(q, kRootHandle, "e")})), Each(Errc::kOk));
  EXPECT_ERRC(send(q, 5, {mkdir(q, kRootHandle, "f")}), Errc::kProtocol);
}

TEST_F(MetaQueues, AHandleIsUsedOnce) {
  const Handle first = q.unused;
  EXPECT_THAT(
      statuses(send(q, {create(q, kRootHandle, "a"), create(q, kRootHandle, "a"), create(q, kRootHandle, "b")})),
      ElementsAre(Errc::kOk, Errc::kExists, Errc::kOk));
  const auto with = [&](std::string name, Handle handle) {
    return change(create_request(kRootHandle, std::move(name)), handle);
  };
  const Handle foreign = queueing().unused;
  const auto refused =
      send(q, {with("x", first), with("x", Handle(first.value + 1)), with("x", Handle(first.value + 100)),
               with("x", Handle()), with("x", foreign), with("x", Handle(first.value + 10 + (1ULL << 48U))),
               with("x", Handle(first.value + 10 + (1ULL << kPlaceShift))), with("x", kRootHandle)});
  EXPECT_THAT(statuses(refused), Each(Errc::kInvalidArgument));
  wire::QueuedChange odd = chmod(first, 0600);
  odd.handle = take(q);
  EXPECT_THAT(statuses(send(q, {odd})), Each(Errc::kInvalidArgument));
  EXPECT_ERRC(stat(q.client, "x"), Errc::kNotFound);
  EXPECT_THAT(statuses(send(q, {with("x", Handle(first.value + 50)), with("y", Handle(first.value + 49))})),
              ElementsAre(Errc::kOk, Errc::kInvalidArgument));
  restart();
  EXPECT_THAT(statuses(send(q, {with("y", Handle(first.value + 50)), with("y", Handle(first.value + 51))})),
              ElementsAre(Errc::kInvalidArgument, Errc::kOk));
}

TEST_F(MetaQueues, ASessionHasTwoRangesOfHandles) {
  const auto second = reserve(q, 10);
  ASSERT_OK(second);
  EXPECT_EQ(second->count, 10U);
  EXPECT_EQ(second->next, 1U);
  const auto again = reserve(q);
  ASSERT_OK(again);
  EXPECT_EQ(again->first, second->first) << "the client may not have had the answer";
  EXPECT_EQ(again->count, 10U);
  EXPECT_ERRC(reserve(q, 0), Errc::kInvalidArgument);
  EXPECT_ERRC(reserve(q, wire::kMostReserved + 1), Errc::kInvalidArgument);
  q.unused = second->first;  // the use of the second range drops the first one
  ASSERT_THAT(statuses(send(q, {create(q, kRootHandle, "f")})), Each(Errc::kOk));
  const auto third = reserve(q, wire::kMostReserved);
  ASSERT_OK(third);
  EXPECT_EQ(third->next, 2U);
  EXPECT_EQ(reserve(q).value().first, third->first);
  std::vector<wire::QueuedChange> rest;
  for (int i = 0; i < 9; ++i) rest.push_back(create(q, kRootHandle, "g" + std::to_string(i)));
  ASSERT_THAT(statuses(send(q, rest)), Each(Errc::kOk));
  const auto fourth = reserve(q);
  ASSERT_OK(fourth);
  EXPECT_NE(fourth->first, third->first) << "the second range is used up";
  restart();
  EXPECT_EQ(reserve(q).value().first, fourth->first);
  q.unused = third->first;
  EXPECT_THAT(statuses(send(q, {create(q, kRootHandle, "h")})), Each(Errc::kOk));
}

TEST_F(MetaQueues, NoOtherObjectGetsAReservedHandle) {
  const auto range = reserve(q, 4000);
  ASSERT_OK(range);
  for (int i = 0; i < 50; ++i) {
    const Handle made = make_file(q.client, "f" + std::to_string(i), 0);
    EXPECT_FALSE(made.value >= q.unused.value && made.value < q.unused.value + 100) << made.value;
    EXPECT_FALSE(made.value >= range->first.value && made.value < range->first.value + 4000) << made.value;
  }
  // An epoch ends: its handles are reserved for nobody.
  Queueing other = queueing();
  EXPECT_GE(other.unused.value, range->first.value + 4000);
}

TEST_F(MetaQueues, AChangeThatFailsUsesItsNumberUpAndLeavesTheOthers) {
  const std::uint64_t before = role->core().objects().count();
  Queueing a = queueing(alice());
  wire::SetattrRequest other;
  other.where = in(kRootHandle, "");
  other.mode = 0777;
  const auto reply =
      send(a, {mkdir(a, kRootHandle, "d"), mkdir(a, kRootHandle, "d"), change(other), close(kRootHandle, Rights::kRead),
               create(a, Handle(99), "f"), create(a, kRootHandle, "g"), mkdir(a, kRootHandle, "e", 07777777)});
  EXPECT_THAT(statuses(reply), ElementsAre(Errc::kOk, Errc::kExists, Errc::kNotPermitted, Errc::kBadDescriptor,
                                           Errc::kStaleHandle, Errc::kOk, Errc::kInvalidArgument));
  EXPECT_THAT(statuses(send(a, {mkdir(a, kRootHandle, "e")})), Each(Errc::kOk));
  EXPECT_EQ(role->core().objects().count(), before + 3);
}

// Objects that a failed change has counted stayed in the number of objects.
TEST_F(MetaQueues, AFailedChangeCountsNoObject) {
  ASSERT_THAT(statuses(send(q, {mkdir(q, kRootHandle, "closed", 0755)})), Each(Errc::kOk));
  const std::uint64_t before = role->core().objects().count();
  Queueing a = queueing(alice());
  const Handle closed = stat(q.client, "closed")->handle;
  EXPECT_THAT(statuses(send(a, {mkdir(a, closed, "d"), create(a, closed, "f", kRW | wire::kOpenExclusive)})),
              Each(Errc::kPermissionDenied));
  wire::MkdirRequest request;
  request.where = at("closed/d");
  wire::BatchedChange batched{wire::Op::kMkdir, {}};
  wire::encode_body(request, batched.body);
  ASSERT_OK(asked<wire::ChangeBatchReply>(a.client, wire::ChangeBatchRequest{{batched}}));
  EXPECT_EQ(role->core().objects().count(), before);
  EXPECT_THAT(Audit(*this).opens, testing::IsEmpty());
}

TEST_F(MetaQueues, OnlyTheListedChangesAreQueued) {
  wire::RenameRequest rename;
  rename.from = at("f");
  rename.to = at("g");
  wire::CreateRequest fifo = create_request(kRootHandle, "fifo");
  fifo.type = FileType::kFifo;
  const auto with = [&](std::uint8_t flags) { return create(q, kRootHandle, "x", flags); };
  wire::QueuedChange garbage = create(q, kRootHandle, "x");
  garbage.handle = Handle(garbage.handle.value + 50);
  garbage.body.pop_back();
  wire::QueuedChange strange = garbage;
  strange.op = static_cast<wire::Op>(9999);
  const auto nested = change(wire::QueuedChangesRequest{q.next, {}});
  const auto reply = send(
      q, {change(rename), change(fifo, take(q)), with(0), with(kRW), with(wire::kOpenExclusive | wire::kOpenTruncate),
          with(kRW | wire::kOpenTemporary), garbage, strange, nested});
  EXPECT_THAT(statuses(reply), ElementsAre(Errc::kNotSupported, Errc::kNotSupported, Errc::kNotSupported,
                                           Errc::kNotSupported, Errc::kNotSupported, Errc::kNotSupported,
                                           Errc::kProtocol, Errc::kNotSupported, Errc::kNotSupported));
  EXPECT_ERRC(send(q, q.next, {}), Errc::kInvalidArgument);
  const wire::QueuedChange one = chmod(kRootHandle, 01777);
  EXPECT_ERRC(send(q, q.next, std::vector<wire::QueuedChange>(wire::kMostBatched + 1, one)), Errc::kInvalidArgument);
  wire::QueuedChange large = one;
  large.body.resize(wire::kMostBatchedBytes + 1);
  EXPECT_ERRC(send(q, q.next, {large}), Errc::kInvalidArgument);
  EXPECT_THAT(statuses(send(q, {one})), Each(Errc::kOk));
}

TEST_F(MetaQueues, AChangeHasHappenedWhenItsClientSays) {
  const Handle d = q.unused;
  ASSERT_THAT(statuses(send(q, {mkdir(q, kRootHandle, "d")})), Each(Errc::kOk));
  const WallTime made = inode(d).attributes.mtime;
  wait(milliseconds(100));
  wire::QueuedChange late = create(q, d, "late");
  const WallTime then = late.at;
  wire::QueuedChange early = create(q, d, "early");
  early.at = WallTime{made.ns - 1'000'000};
  wire::QueuedChange future = create(q, d, "future");
  future.at = WallTime{then.ns + 3'600'000'000'000};
  wait(milliseconds(50));
  const WallTime now = clock.wall();
  wire::QueuedChange least = chmod(Handle(d.value + 1), 0600);
  least.at = WallTime{INT64_MIN};
  ASSERT_THAT(statuses(send(q, {late, early, least, future})), Each(Errc::kOk));
  EXPECT_EQ(stat(q.client, "d/late")->mtime, then);
  EXPECT_EQ(stat(q.client, "d/late")->ctime, then);
  EXPECT_EQ(stat(q.client, "d/early")->btime, then) << "an object older than its directory's last change";
  EXPECT_EQ(stat(q.client, "d/future")->ctime, now);
  EXPECT_EQ(stat(q.client, "d")->mtime, now);
  EXPECT_EQ(inode(Handle(d.value + 1)).attributes.mode, 0600U);
}

TEST_F(MetaQueues, AChangeWhoseAnswerHasNoRoomIsMadeAllTheSame) {
  wire::SymlinkRequest long_link;
  long_link.where = in(kRootHandle, "l");
  long_link.target = std::string(4000, 't');
  const Handle link = q.unused;
  std::vector<wire::QueuedChange> changes = {change(long_link, take(q))};
  wire::SetattrRequest now;
  now.where = in(link, "");
  now.mtime_now = true;
  for (int i = 0; i < 20; ++i) changes.push_back(change(now));  // each answer contains the link's target
  const auto reply = send(q, changes);
  ASSERT_THAT(statuses(reply), Each(Errc::kOk));
  EXPECT_THAT(reply->answers.front().body, testing::Not(testing::IsEmpty()));
  EXPECT_THAT(reply->answers.back().body, testing::IsEmpty());
  EXPECT_EQ(inode(link).attributes.version, 21U);
  std::vector<wire::QueuedChange> links;
  for (int i = 0; i < 20; ++i) {
    long_link.where = in(kRootHandle, "l" + std::to_string(i));
    links.push_back(change(long_link, take(q)));
  }
  EXPECT_ERRC(send(q, q.next, links), Errc::kMessageTooBig);  // not even the names would fit
  EXPECT_ERRC(stat(q.client, "l0"), Errc::kNotFound);
}

TEST_F(MetaQueues, TransientErrorsLeaveNothing) {
  int commits = 0;
  store.on_commit = [&] { return ++commits == 1 ? Errc::kIoError : Errc::kOk; };
  const std::vector<wire::QueuedChange> changes = {mkdir(q, kRootHandle, "d"), mkdir(q, kRootHandle, "e")};
  EXPECT_ERRC(send(q, 1, changes), Errc::kIoError);
  restart();
  EXPECT_ERRC(stat(q.client, "d"), Errc::kNotFound);
  const auto again = send(q, 1, changes);
  EXPECT_THAT(statuses(again), Each(Errc::kOk));
  EXPECT_EQ(stat(q.client, "d")->handle, changes[0].handle);
}

TEST_F(MetaQueues, OnlyClientsWithTheFeatureQueueChanges) {
  TestClient plain = connect();
  EXPECT_ERRC(asked<wire::ReserveHandlesReply>(plain, wire::ReserveHandlesRequest{kRootHandle, 1}),
              Errc::kNotSupported);
  EXPECT_ERRC(asked<wire::QueuedChangesReply>(plain, wire::QueuedChangesRequest{1, {chmod(kRootHandle, 0)}}, no_id()),
              Errc::kNotSupported);
  Queueing none{connect(), 1, Handle(5000)};
  none.client.features = kFeatures;
  EXPECT_ERRC(send(none, {create(none, kRootHandle, "f")}), Errc::kInvalidArgument);
  EXPECT_ERRC(asked<wire::ReserveHandlesReply>(none.client, wire::ReserveHandlesRequest{Handle(1ULL << 48U), 1}),
              Errc::kInvalidArgument);
}

TEST_F(MetaQueues, ANewEpochKeepsTheNumbersAndGetsNewHandles) {
  ASSERT_OK(reserve(q));
  ASSERT_THAT(statuses(send(q, {create(q, kRootHandle, "f")})), Each(Errc::kOk));
  const Queueing before = q;
  wait(3 * options.session_lease);
  EXPECT_ERRC(send(q, q.next, {create(q, kRootHandle, "g")}), Errc::kSessionFenced);
  ASSERT_OK(join(q.client));
  ASSERT_GT(q.client.epoch, before.client.epoch);
  EXPECT_ERRC(send(q, q.next, {create(q, kRootHandle, "g")}), Errc::kInvalidArgument);
  const auto reserved = reserve(q);
  ASSERT_OK(reserved);
  EXPECT_EQ(reserved->next, 2U);
  EXPECT_THAT(statuses(send(q, 2, {create(q, kRootHandle, "g")})), Each(Errc::kInvalidArgument)) << "an old handle";
  q.unused = reserved->first;
  EXPECT_THAT(statuses(send(q, 3, {create(q, kRootHandle, "g")})), Each(Errc::kOk));
}

TEST_F(MetaQueues, TheEndOfASessionLeavesNoRecord) {
  ASSERT_THAT(statuses(send(q, {create(q, kRootHandle, "f")})), Each(Errc::kOk));
  EXPECT_EQ(records(KeyKind::kQueue), 1U);
  ASSERT_OK(asked<wire::Empty>(q.client, wire::EndSessionRequest(), no_id()));
  wait(std::chrono::seconds(1));
  EXPECT_EQ(records(KeyKind::kQueue), 0U);
  EXPECT_ERRC(send(q, 2, {create(q, kRootHandle, "g")}), Errc::kSessionUnknown);
}

TEST_F(MetaQueues, ACrashAtAnyCommitMakesAllOrNone) {
  for (int at_commit = 1; at_commit <= 3; ++at_commit) {
    const std::string base = "c" + std::to_string(at_commit);
    const std::vector<wire::QueuedChange> changes = {mkdir(q, kRootHandle, base + "d"),
                                                     mkdir(q, kRootHandle, base + "e")};
    int commits = 0;
    store.on_commit = [&] { return ++commits >= at_commit ? Errc::kIoError : Errc::kOk; };
    std::ignore = send(q, q.next, changes);
    restart();
    EXPECT_EQ(stat(q.client, base + "d").code(), stat(q.client, base + "e").code());
    EXPECT_THAT(statuses(send(q, changes)), Each(Errc::kOk));
    EXPECT_OK(stat(q.client, base + "e"));
  }
  Audit(*this).check();
}

}  // namespace
}  // namespace spate::meta
