// SPDX-License-Identifier: Apache-2.0
// For tests: a meta server whose store a test damages, scans and repairs.
#pragma once

#include <algorithm>

#include "base/expect.h"
#include "server/meta/check/check.h"
#include "server/meta/testing/role_test.h"

namespace spate::meta {

using wire::Damage;
using wire::Finding;
using wire::RepairOutcome;
using wire::ScanKind;

inline constexpr Handle kNowhere{40000};  // a number reserved, but given to no object

class CheckTest : public RoleTest {
 public:
  CheckTest() : admin(connect(root_user())) {}

  // Edits of the store.

  void edit(std::function<void(job::Transaction&)> change) {
    job::Transaction transaction = context.begin();
    change(transaction);
    ASSERT_OK(run(committed(transaction)));
  }
  template <typename Record>
  void put(StoreKey key, const Record& value) {
    edit([&](job::Transaction& store) { store.put(key, encoded(value)); });
  }
  void put_raw(StoreKey key, std::string_view value) {
    edit([&](job::Transaction& store) { store.put(key, as_bytes(value)); });
  }
  void erase(StoreKey key) {
    edit([&](job::Transaction& store) { store.erase(key); });
  }
  StoreKey key_of(Handle directory, std::string_view name) {
    return entry_key(directory, role->core().name_hash()(name), name);
  }
  template <typename Change>
  void change_inode(Handle handle, Change change) {
    InodeRecord record = inode(handle);
    change(record);
    put(inode_key(handle), record);
  }
  bool has(StoreKey key) {
    job::Transaction transaction = context.begin();
    return run(got(transaction, key));
  }

  // Requests to the name space.

  Handle make_directory(std::string path) {
    wire::MkdirRequest request;
    request.where = at(std::move(path));
    request.attributes.mode = 0755;
    const auto made = asked<wire::MkdirReply>(admin, std::move(request));
    EXPECT_OK(made);
    return made->attributes.handle;
  }
  Handle file(std::string path, std::uint64_t size = 0) { return make_file(admin, std::move(path), size); }
  Handle handle_at(std::string path) {
    const auto attributes = stat(admin, std::move(path));
    return attributes ? attributes->handle : Handle();
  }

  // Requests of fsck.

  Result<wire::MetaScanReply> page(wire::MetaScanRequest request) {
    return asked<wire::MetaScanReply>(admin, std::move(request), no_id());
  }
  /// All pages of one kind, put together.
  wire::MetaScanReply scan(ScanKind what, wire::MetaScanRequest request = {}) {
    wire::MetaScanReply all;
    request.what = what;
    request.max = page_size;
    request.grace_ns = static_cast<std::uint64_t>(grace.count());
    for (;;) {
      auto reply = page(request);
      if (!reply) {
        ADD_FAILURE() << reply.error().message();
        return all;
      }
      const auto append = [](auto& to, auto& from) { to.insert(to.end(), from.begin(), from.end()); };
      append(all.findings, reply->findings);
      append(all.inodes, reply->inodes);
      append(all.entries, reply->entries);
      append(all.directories, reply->directories);
      all.records += reply->records;
      all.unfinished += reply->unfinished;
      if (reply->end) return all;
      request.after = reply->next;
    }
  }
  /// Findings of all kinds.
  std::vector<Finding> check() {
    std::vector<Finding> all;
    for (auto what = ScanKind::kInodes; what <= ScanKind::kSessions;
         what = static_cast<ScanKind>(static_cast<int>(what) + 1)) {
      const auto reply = scan(what);
      all.insert(all.end(), reply.findings.begin(), reply.findings.end());
    }
    return all;
  }
  wire::MetaRepairReply repair(const Finding& finding, bool apply) {
    wire::MetaRepairRequest request;
    request.finding = finding;
    request.apply = apply;
    const auto reply = asked<wire::MetaRepairReply>(admin, std::move(request), no_id());
    EXPECT_OK(reply);
    return reply ? *reply : wire::MetaRepairReply{};
  }
  /// Expects exactly one finding, of this kind. Looking at it must change nothing.
  Finding only(Damage damage) {
    const auto findings = check();
    EXPECT_EQ(findings.size(), 1U);
    if (findings.empty()) return {};
    EXPECT_EQ(wire::damage_name(findings[0].damage), wire::damage_name(damage));
    EXPECT_EQ(repair(findings[0], false).outcome, RepairOutcome::kConfirmed);
    EXPECT_EQ(check().size(), 1U);
    return findings[0];
  }
  /// Repairs it, and expects that no finding is left.
  wire::MetaRepairReply mend(const Finding& finding) {
    const auto reply = repair(finding, true);
    EXPECT_EQ(reply.outcome, RepairOutcome::kRepaired) << reply.note;
    EXPECT_EQ(repair(finding, true).outcome, RepairOutcome::kGone);
    const auto left = check();
    for (const Finding& more : left) ADD_FAILURE() << wire::damage_name(more.damage) << " is left";
    return reply;
  }

  TestClient admin;
  std::uint32_t page_size = 3;
  Duration grace = std::chrono::seconds(60);

 private:
  static job::Task<Result<void>> committed(job::Transaction& transaction) {
    const auto done = co_await transaction.commit(trove::Durability::kProcess);
    co_return done.status == Errc::kOk ? Result<void>() : Result<void>(done.status);
  }
  static job::Task<bool> got(job::Transaction& transaction, StoreKey key) {
    const auto read = co_await transaction.get(key, trove::ReadMode::kSnapshot);
    co_return read.value.has_value();
  }
};

}  // namespace spate::meta
