// SPDX-License-Identifier: Apache-2.0
// Sessions that end while their requests run, or whose records are damaged.
#include <optional>

#include "server/meta/testing/role_test.h"

namespace spate::meta {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

class MetaExpiry : public RoleTest {
 public:
  explicit MetaExpiry(std::uint64_t seed = 1, bool overlap = false) : RoleTest(seed, overlap) {}
  void TestBody() override {}

  static wire::LockRequest lock_request(std::uint64_t sequence, bool wait = false, Handle file = Handle(77)) {
    const wire::LockSpec spec{file, LockKind::kProcess, 1, 4711, LockMode::kExclusive, 0, LockRange::kToEnd};
    return {spec, wait, sequence, sequence, 0};
  }
  Errc lock(TestClient& client, Handle file = Handle(77)) {
    return asked<wire::LockReply>(client, lock_request(++locks_, false, file), no_id()).code();
  }
  /// Reclaims this lock after a restart, as the only one of the client.
  Errc claim(TestClient& client, Handle file) {
    const wire::LockReclaimRequest request{{lock_request(1, false, file).lock}, true};
    return asked<wire::LockReclaimReply>(client, request, no_id()).code();
  }
  /// From now on no truncation reaches an io server.
  void hold_cuts() {
    io.fail = [](std::string_view call) { return call.starts_with("truncate") ? Errc::kTimeout : Errc::kOk; };
  }
  /// Makes the record unreadable.
  void damage(const StoreKey& key) {
    job::Transaction transaction = context.begin();
    transaction.put(key, Bytes(3, std::byte{1}));
    EXPECT_EQ(run(commit(transaction)), Errc::kOk);
  }
  std::size_t notes() {
    job::Transaction transaction = context.begin();
    return count(transaction, lock_holders()) + count(transaction, lease_holders());
  }

 private:
  static job::Task<Errc> commit(job::Transaction& transaction) {
    const auto done = co_await transaction.commit(trove::Durability::kProcess);
    co_return done.status;
  }
  static job::Task<std::size_t> size_of(job::Transaction& transaction, const trove::KeyRange& range) {
    const auto read = co_await transaction.range(range);
    co_return read.entries.size();
  }
  std::size_t count(job::Transaction& transaction, trove::KeyRange range) {
    range.limit = 1000;
    range.mode = trove::ReadMode::kSnapshot;
    return run(size_of(transaction, range));
  }
  std::uint64_t locks_ = 0;
};

TEST_F(MetaExpiry, ARequestThatWaitedIsNotCommittedWhenItsSessionHasExpired) {
  TestClient silent = connect();
  TestClient other = connect();
  const Handle file = make_file(silent, "f", 100);
  ASSERT_OK(open_file(silent, "f", wire::kOpenWrite));
  io.hold();
  auto first = begin<wire::ObjectReply>(other, truncate_request("f", 10), id(++other.next), hours(24));
  auto second = begin<wire::ObjectReply>(silent, truncate_request("f", 50), id(++silent.next), hours(24));
  wait_alive(other, options.session_lease + seconds(10));
  io.release();
  wait_alive(other, seconds(10));
  EXPECT_OK(first->result);
  EXPECT_ERRC(second->result, Errc::kSessionFenced);
  EXPECT_EQ(data_of(file).size, 10U) << "a request of an expired session has taken effect";
}

TEST_F(MetaExpiry, LocksOfAnExpiredSessionPassToOthersAfterItsTruncations) {
  TestClient silent = connect();
  TestClient other = connect();
  const Handle file = make_file(other, "f", 100);
  ASSERT_OK(open_file(other, "f", wire::kOpenWrite));
  ASSERT_EQ(lock(silent), Errc::kOk);
  // Truncations do not reach the io servers, fences do.
  io.fail = [](std::string_view call) { return call.starts_with("truncate") ? Errc::kTimeout : Errc::kOk; };
  auto cut = begin<wire::ObjectReply>(silent, truncate_request("f", 10), id(++silent.next), hours(24));
  wait_alive(other, options.session_lease + seconds(20));
  EXPECT_EQ(io.fences[silent.id], 2U);
  EXPECT_EQ(lock(other), Errc::kTryAgain) << "the file may still be cut";
  io.fail = nullptr;
  wait_alive(other, seconds(20));
  EXPECT_EQ(data_of(file).size, 10U);
  EXPECT_EQ(lock(other), Errc::kOk);
}

TEST_F(MetaExpiry, LocksOfAnExpiredSessionPassToOthersAfterARefusedTruncationIsUndone) {
  TestClient silent = connect();
  TestClient other = connect();
  const Handle file = make_file(other, "f", 100);
  ASSERT_EQ(lock(silent), Errc::kOk);
  io.fail = [refused = false](std::string_view call) mutable {
    if (!call.starts_with("truncate")) return Errc::kOk;
    return std::exchange(refused, true) ? Errc::kTimeout : Errc::kFileTooBig;
  };
  auto grown = begin<wire::ObjectReply>(silent, truncate_request("f", 1U << 30U), id(++silent.next), hours(24));
  wait_alive(other, options.session_lease + seconds(20));
  EXPECT_EQ(lock(other), Errc::kTryAgain) << "the file may still be cut";
  io.fail = nullptr;
  wait_alive(other, seconds(20));
  EXPECT_EQ(data_of(file).size, 100U);
  EXPECT_EQ(lock(other), Errc::kOk);
}

TEST_F(MetaExpiry, ADamagedOpenDoesNotKeepTheRestOfItsSession) {
  TestClient silent = connect();
  TestClient other = connect();
  const Handle damaged = make_file(silent, "a", 1);
  make_file(silent, "b", 1);
  ASSERT_OK(open_file(silent, "a", wire::kOpenWrite));
  ASSERT_OK(open_file(silent, "b", wire::kOpenWrite));
  ASSERT_EQ(lock(silent), Errc::kOk);
  damage(open_key(damaged, silent.id, silent.epoch));
  wait_alive(other, options.session_lease + seconds(20));
  EXPECT_EQ(records(KeyKind::kOpen), 1U) << "the other open has stayed";
  EXPECT_EQ(lock(other), Errc::kOk) << "the lock has stayed";
}

TEST_F(MetaExpiry, ADamagedLockNoteKeepsNoLock) {
  TestClient silent = connect();
  TestClient other = connect();
  ASSERT_EQ(lock(silent), Errc::kOk);
  damage(lock_holder_key(silent.id));
  wait_alive(other, options.session_lease + seconds(20));
  EXPECT_EQ(lock(other), Errc::kOk);
}

TEST_F(MetaExpiry, AServerWithDamagedLockNotesStartsAndDelaysNewLocks) {
  TestClient holder = connect();
  ASSERT_EQ(lock(holder), Errc::kOk);
  damage(lock_holder_key(holder.id));
  damage(lease_holder_key(holder.id));
  restart();
  ASSERT_OK(started);
  TestClient other = connect();
  EXPECT_EQ(lock(other), Errc::kBusy);
  for (Duration passed{0}; passed < options.session_lease * 2; passed += seconds(5)) {
    ASSERT_OK(join(holder));
    wait_alive(other, seconds(5));
  }
  EXPECT_EQ(lock(other), Errc::kOk);
}

TEST_F(MetaExpiry, AfterARestartLocksPassToOthersOnlyOnceTheirHolderIsFenced) {
  TestClient holder = connect();
  TestClient other = connect();
  make_file(holder, "f", 1);
  ASSERT_OK(open_file(holder, "f", wire::kOpenWrite));
  ASSERT_EQ(lock(holder), Errc::kOk);
  restart();
  ASSERT_OK(join(other));
  io.hold();  // one io server is away, so no fence completes
  wait_alive(other, options.session_lease + seconds(10));
  ASSERT_OK(join(holder));
  EXPECT_EQ(holder.epoch, 2U);
  for (Duration passed{0}; passed < options.session_lease * 2; passed += seconds(5)) {
    wait_alive(other, seconds(5));
    ASSERT_OK(keep_alive(holder));
  }
  EXPECT_EQ(lock(other), Errc::kBusy) << "what the holder wrote in its old epoch may still come";
  io.release();
  wait_alive(other, seconds(10));
  EXPECT_EQ(lock(other), Errc::kOk);
}

/// In its next epoch the holder has locked another file. So after a restart, all reclaims that the meta server waits
/// for may come from the holder itself.
TEST_F(MetaExpiry, AReclaimAfterARestartDoesNotReleaseAnEarlierEpoch) {
  constexpr Handle kOtherFile{78};
  TestClient holder = connect();
  TestClient other = connect();
  const Handle file = make_file(other, "f", 100);
  ASSERT_OK(open_file(other, "f", wire::kOpenWrite));
  ASSERT_EQ(lock(holder), Errc::kOk);
  hold_cuts();
  auto cut = begin<wire::ObjectReply>(holder, truncate_request("f", 10), id(++holder.next), seconds(5));
  wait_alive(other, options.session_lease + seconds(10));
  cut.reset();
  ASSERT_OK(join(holder));
  ASSERT_EQ(holder.epoch, 2U);
  ASSERT_EQ(lock(holder, kOtherFile), Errc::kOk);
  for (int restarts = 0; restarts < 3; ++restarts) {
    restart();
    ASSERT_OK(join(holder));
    ASSERT_OK(join(other));
    EXPECT_EQ(claim(holder, kOtherFile), Errc::kOk);
    EXPECT_EQ(lock(other), Errc::kBusy) << "the file may still be cut";
  }
  io.fail = nullptr;
  for (int i = 0; i < 4; ++i) {
    wait_alive(other, seconds(5));
    ASSERT_OK(keep_alive(holder));
  }
  EXPECT_EQ(data_of(file).size, 10U);
  EXPECT_EQ(lock(other), Errc::kOk);
  EXPECT_EQ(lock(other, kOtherFile), Errc::kTryAgain);
}

TEST_F(MetaExpiry, AReclaimIsAnsweredAgainAfterAnEarlierEpochWasReleased) {
  TestClient holder = connect();
  make_file(holder, "f", 1);
  ASSERT_OK(open_file(holder, "f", wire::kOpenWrite));
  io.hold();  // no fence completes
  wait(options.session_lease + seconds(10));
  ASSERT_OK(join(holder));
  ASSERT_EQ(lock(holder), Errc::kOk);
  restart();
  ASSERT_OK(join(holder));
  EXPECT_EQ(claim(holder, Handle(77)), Errc::kOk);
  io.release();
  wait_alive(holder, seconds(10));
  EXPECT_EQ(claim(holder, Handle(77)), Errc::kOk);
}

TEST(MetaExpiryRaces, AnEndedSessionGetsNoNotes) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    MetaExpiry world(seed, true);
    TestClient client = world.connect();
    {
      auto lock = world.begin<wire::LockReply>(client, MetaExpiry::lock_request(1), RoleTest::no_id());
      wire::LookupLeaseRequest request;
      request.where = at("");
      auto lease = world.begin<wire::LookupLeaseReply>(client, std::move(request), RoleTest::no_id());
      auto end = world.begin<wire::Empty>(client, wire::EndSessionRequest(), RoleTest::no_id());
      world.wait(seconds(5));
      ASSERT_NE(lock->result, std::nullopt) << "it has not ended";
      ASSERT_NE(lease->result, std::nullopt) << "it has not ended";
      ASSERT_OK(end->result);
    }
    EXPECT_EQ(world.records(KeyKind::kSession), 0U);
    ASSERT_EQ(world.notes(), 0U) << "seed " << seed << ": each restart would wait for a session that is gone";
  }
}

TEST_F(MetaExpiry, NotesOfASessionThatIsGoneAreDroppedAtAStart) {
  for (const StoreKey& key : {lock_holder_key(ClientId(4000)), lease_holder_key(ClientId(4000))}) damage(key);
  EXPECT_EQ(notes(), 2U);
  restart();
  wait(seconds(1));
  EXPECT_EQ(notes(), 0U);
}

}  // namespace
}  // namespace spate::meta
