// SPDX-License-Identifier: Apache-2.0
// Bypass: the datafiles of an open file that this client reads and writes by itself, under leases of io servers on its
// own machine (docs/data-paths.md, "Bypass").
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "client/bypass/lent_file.h"
#include "client/session/limits.h"
#include "job/semaphore.h"
#include "rpc/channel.h"
#include "wire/bypass_messages.h"
#include "wire/io_messages.h"

namespace spate::client {

class Session;

/// The part of a read or write that one server would do, and that this client may do by itself.
struct BypassParams {
  Handle handle;
  const Capability& capability;
  wire::DataPath path = wire::DataPath::kAutomatic;
  rpc::Channel& channel;
  std::span<const wire::SlotRef> slots;
  std::uint64_t total_bytes = 0;
  bool for_writing = false;
};

/// The bypass leases of one open file. It asks for a lease when that seems worth it, returns it by give_back(), and no
/// longer uses it once a server has recalled it. From then on the server moves the data. One executor.
class Bypass {
 public:
  /// Both outlive it.
  Bypass(Session& session, LentFiles& lent_files);
  Bypass(const Bypass&) = delete;
  Bypass& operator=(const Bypass&) = delete;

  /// Whether ready() has a chance; cheap, for each read and write. Counts it, too: a file that moves little gets no
  /// lease.
  bool considers(const BypassParams& params);
  /// Whether leases for all of these slots are held; asks for those that are not. One asks at a time: who need
  /// not go past the server does not wait for that, who was told to (kBypass) does.
  job::Task<bool> ready(const BypassParams& params, Limits limits);
  /// Why not, for people.
  const std::string& refusal() const { return refusal_; }

  /// What became of one slot's share.
  struct Moved {
    std::uint64_t bytes = 0;
    std::uint64_t datafile_bytes = 0;  // its size, afterwards
    std::uint64_t counter = 0;         // the datafile's change counter was not below that; 0: not known
  };
  /// Nothing: the lease has been recalled, ask the server. kLostWrite: the server has fenced this client in the middle
  /// of the write, which may have gone nowhere.
  job::Task<Result<std::optional<Moved>>> move(const SlotWork& work);

  /// Before the file is closed: what was moved is told, and nothing is held any more.
  job::Task<void> give_back(Limits limits);
  /// By this file, in both directions, past the servers, bytes.
  std::uint64_t bytes_moved() const { return bytes_moved_; }

 private:
  struct Held {
    rpc::Channel* channel = nullptr;
    std::uint64_t id = 0;
    std::unique_ptr<LentFile> file;  // null: granted, but of no use here
    bool writable = false;
    std::uint64_t read_bytes = 0;
    std::uint64_t written_bytes = 0;
    LeaseWords& words() const { return file->words(); }
    bool granted() const { return words().state.load(std::memory_order_acquire) == LeaseWords::kGranted; }
  };
  using HeldPtr = std::shared_ptr<Held>;
  struct SlotLeases {
    HeldPtr reader;
    HeldPtr writer;
    MonoTime not_before;  // a refusal is not asked about again before
  };

  HeldPtr find(std::uint32_t slot, bool for_writing);
  bool holds(const BypassParams& params);
  bool worth_it(const BypassParams& params);
  job::Task<Result<void>> ask(const BypassParams& params, Limits limits);
  Result<HeldPtr> take(rpc::Channel& channel, bmi::Address peer, std::uint64_t tag,
                       const wire::BypassLeaseRequest& request, std::size_t index);
  void let_go(std::uint32_t slot, const HeldPtr& held);

  Session& session_;
  LentFiles& lent_files_;
  std::unordered_map<std::uint32_t, SlotLeases> slots_;
  std::vector<HeldPtr> ended_;  // their bytes are still to be told
  std::string refusal_ = "no lease was asked for yet";
  std::uint64_t bytes_seen_ = 0;
  std::uint64_t transfers_seen_ = 0;
  std::uint64_t bytes_moved_ = 0;
  bool asking_ = false;
  job::Semaphore turn_;
};

}  // namespace spate::client
