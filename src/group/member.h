// SPDX-License-Identifier: Apache-2.0
// Member: one server's part in a group. Source: Lin et al., "PacificA: Replication in Log-Based Distributed Storage
// Systems", MSR-TR-2008-25, sec. 2; docs/availability.md says what differs.
#pragma once

#include <optional>

#include "base/random.h"
#include "coord/coordinator.h"
#include "group/leader.h"
#include "group/wake_check.h"

namespace spate::group {

struct MemberOptions {
  std::uint32_t group = 0;
  ServerId self;
  std::uint64_t boot = 1;     // differs after each boot of the machine
  std::uint64_t process = 1;  // differs after each start of the process
  Timing timing;
};

/// A member is a backup until it takes over. Then it is the primary as long as it can be. After that it has *resigned*
/// for good, and its process must be restarted.
///
/// Life cycle: construct -> start() awaited -> answer() for each message of others. Once led() is set, the roles above
/// the keyval may begin -> resigned() is set, or the server stops: the roles above end -> stop() awaited -> destroyed.
/// One executor.
class Member final : public Leadership {
 public:
  Member(MemberOptions options, coord::Coordinator& coordinator, Link& link, job::KeyvalContext& store,
         trove::ReplicatedKeyval& keyval);
  ~Member() override;
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  /// Reads the log, and starts the member's work in the background.
  job::Task<Result<void>> start();
  job::Task<void> stop();

  job::Task<Answer> answer(std::shared_ptr<const Message> message);

  /// Set when this member is the primary and its store accepts transactions.
  job::Event& led() { return led_; }
  /// Set when it is no longer the primary, or cannot continue. why() has the reason.
  job::Event& resigned() { return resigned_; }
  const Error& why() const { return why_; }
  /// How long the process waits, once this has resigned, before it is a member again. After a failure the others get
  /// the time to take over: the record may name this member as the primary, and then it leads as soon as it is back.
  Duration pause() const;
  /// The store, or what stands on it, has failed and cannot continue.
  void failed(Error why) override { resign(std::move(why)); }

  /// Await it before sending anything that depends on the store. Waits until everything decided so far is replicated,
  /// and no other member can have decided anything. A reply that is sent afterwards was true at some time after the
  /// call. With `needs_copies` it also waits until as many members as the record's `min` hold what was decided. Fails
  /// if the member has resigned or `stop` fires, and if it is out of touch with the others; then nothing may be sent.
  job::Task<Result<void>> pass(bool needs_copies, job::StopToken stop);
  /// Makes another member that has everything the primary, and resigns. It ends when the record names the other one, or
  /// after a second. kTryAgain: there is no such member now.
  job::Task<Result<void>> hand_over(job::StopToken stop);

  const GroupRecord& record() const override { return record_; }
  std::uint64_t revision() const override { return revision_; }
  /// When the coordinator told the record last. Zero: not yet, or another member knows a newer one.
  MonoTime record_read_at() const { return read_at_; }
  /// Whether it serves and knows the end of its log, so that it takes over when the primary is silent.
  bool stands_by() const {
    const bool whole = !log_.incomplete() && (!log_.tail_unknown() || found_complete());
    return whole && record_.serves(options_.self) && !resigned_.is_set();
  }
  bool leads() const { return leader_ != nullptr && !resigned_.is_set(); }
  const LocalLog& log() const { return log_; }

 private:
  job::Task<void> alter(GroupRecord wanted, job::StopToken stop) override;
  void contradicted() override { read_at_ = MonoTime(); }
  MonoTime awake_until() const override;

  void adopt(const GroupRecord& record, std::uint64_t revision);
  job::Task<bool> read_record();
  bool found_complete() const;
  job::Task<void> note_complete();

  job::Task<void> live();
  job::Task<void> watch_clock();
  job::Task<void> step();
  bool has_lost_its_store();
  bool accuses() const;
  job::Task<void> wait_for_successor(job::StopToken stop);
  job::Task<bool> record_is_current();
  /// Makes this member the primary, if the record has not changed since it was read.
  job::Task<void> take_over(GroupRecord wanted);
  job::Task<void> lead();
  job::Task<void> consider_tails();
  void resign(Error why);

  bool accepts(const Message& message);
  job::Task<void> accept(const Message& message, Answer& answer);
  bool short_of_space();
  job::Task<Result<bool>> take_copy(const Message& message);

  const MemberOptions options_;
  coord::Coordinator& coordinator_;
  Link& link_;
  job::KeyvalContext& store_;
  job::Executor& executor_;
  trove::ReplicatedKeyval& keyval_;
  LocalLog log_;
  std::unique_ptr<Leader> leader_;

  GroupRecord record_;
  std::uint64_t revision_ = 0;  // 0: not read yet
  MonoTime read_at_;            // when the record was read last
  WakeCheck wake_;
  MonoTime heard_;         // when the primary was last heard, or when its time to be heard began
  MonoTime acknowledged_;  // when a beacon was acknowledged last, or this process began
  bool accusing_ =
      false;  // this member takes over or does not know the outcome: it acknowledges nothing of the old epoch
  bool handed_over_ = false;      // the primary has ended its lease in favour of this member
  bool told_of_loss_ = false;     // the log says that the store is empty
  bool lease_ended_ = false;      // this member, as the primary, has ended its own lease
  MonoTime serves_from_;          // of a primary: when it may begin to answer
  std::uint64_t copy_epoch_ = 0;  // epoch of the copy that is being received, or was received last
  std::uint64_t copy_ = 0;
  std::uint64_t copy_number_ = 0;
  unsigned under_way_ = 0;  // messages that are being carried out
  MonoTime room_until_;     // the device has room until then

  job::Event led_;
  job::Event resigned_;
  Error why_{Errc::kOk};
  job::Gate gate_;
  job::StopSource stopping_;
};

}  // namespace spate::group
