// SPDX-License-Identifier: Apache-2.0
// Removals and opens among queued changes.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "server/meta/testing/audit_test.h"
#include "server/meta/testing/queue_test.h"

namespace spate::meta {
namespace {

using testing::Each;
using testing::ElementsAre;

class MetaQueuedRemovals : public QueueTest {
 protected:
  Queueing q = queueing(root_user());
};

TEST_F(MetaQueuedRemovals, RemovalsAreMadeInTheirOrderAndOnce) {
  const std::uint64_t before = role->core().objects().count();
  const Handle d = q.unused;
  const std::vector<wire::QueuedChange> changes = {
      mkdir(q, kRootHandle, "d"),
      create(q, d, "f", kRW | wire::kOpenExclusive),
      close(Handle(d.value + 1), Rights::kReadWrite),
      symlink(q, d, "l"),
      unlinking(d, "f"),
      directory_removal(kRootHandle, "d"),
      unlinking(d, "l"),
      unlinking(d, "l"),
      directory_removal(kRootHandle, "d"),
      mkdir(q, kRootHandle, "d"),
  };
  EXPECT_THAT(statuses(send(q, changes)),
              ElementsAre(Errc::kOk, Errc::kOk, Errc::kOk, Errc::kOk, Errc::kOk, Errc::kNotEmpty, Errc::kOk,
                          Errc::kNotFound, Errc::kOk, Errc::kOk));
  EXPECT_EQ(stat(q.client, "d")->handle, Handle(d.value + 3));
  EXPECT_EQ(role->core().objects().count(), before + 1);
  for (const bool restarted : {false, true}) {
    if (restarted) restart();
    EXPECT_THAT(statuses(send(q, 1, changes)), Each(Errc::kOk)) << "they were made before";
    EXPECT_EQ(stat(q.client, "d")->handle, Handle(d.value + 3));
  }
  wire::QueuedChange odd = directory_removal(kRootHandle, "d");
  odd.handle = take(q);
  EXPECT_THAT(statuses(send(q, {odd})), Each(Errc::kInvalidArgument)) << "it makes nothing";
  wait(std::chrono::seconds(1));  // the removal of its data ends
  Audit(*this).check();
}

TEST_F(MetaQueuedRemovals, AFileThatIsRemovedWhileItIsOpenLivesUntilItsClose) {
  const Handle f = q.unused;
  ASSERT_THAT(statuses(send(q, {create(q, kRootHandle, "f", kRW | wire::kOpenExclusive), unlinking(kRootHandle, "f")})),
              Each(Errc::kOk));
  EXPECT_EQ(inode(f).attributes.link_count, 0U);
  EXPECT_THAT(statuses(send(q, {close(f, Rights::kReadWrite)})), Each(Errc::kOk));
  wait(std::chrono::seconds(1));
  Audit(*this).check();
}

TEST_F(MetaQueuedRemovals, AnOpenForReadingCountsUntilItsClose) {
  ASSERT_THAT(statuses(send(q, {create(q, kRootHandle, "f")})), Each(Errc::kOk));
  const Handle f = stat(q.client, "f")->handle;
  const auto opening = [&](std::uint8_t flags, wire::NamePath where, bool renew = false) {
    wire::OpenRequest request;
    request.where = std::move(where);
    request.open_flags = flags;
    request.renew = renew;
    return change(request);
  };
  EXPECT_THAT(
      statuses(send(q, {opening(wire::kOpenRead, in(f, "")), opening(kRW, in(f, "")), opening(wire::kOpenRead, at("f")),
                        opening(wire::kOpenRead, in(f, ""), true), unlinking(kRootHandle, "f")})),
      ElementsAre(Errc::kOk, Errc::kNotSupported, Errc::kNotSupported, Errc::kNotSupported, Errc::kOk));
  EXPECT_EQ(inode(f).attributes.link_count, 0U) << "it is open";
  EXPECT_THAT(statuses(send(q, {close(f, Rights::kRead), close(f, Rights::kRead)})),
              ElementsAre(Errc::kOk, Errc::kBadDescriptor));
  wait(std::chrono::seconds(1));
  Audit audit(*this);
  audit.check();
  EXPECT_THAT(audit.opens, testing::IsEmpty());
}

}  // namespace
}  // namespace spate::meta
