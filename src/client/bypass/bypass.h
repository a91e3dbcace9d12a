// SPDX-License-Identifier: Apache-2.0
// Bypass: the datafiles of an open file that this client reads and writes by itself, under leases of io servers on its
// own machine (docs/data-paths.md, "Bypass").
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "client/bypass/leased_file.h"
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

/// The bypass leases of one open file. Asks for a lease when that seems to pay, returns it with give_back(), and stops
/// using it when the server recalls it. From then on the server moves the data. One executor.
class Bypass {
 public:
  /// The knowledge of the file when this begins.
  struct About {
    bool empty = false;    // no datafile was made yet, so a lease to write one would be refused
    bool gathers = false;  // small writes may be gathered, which a lease for writing would end
  };
  /// `session` and `leased_files` outlive this object.
  Bypass(Session& session, LeasedFiles& leased_files, About about);
  Bypass(const Bypass&) = delete;
  Bypass& operator=(const Bypass&) = delete;

  /// Whether ready() may succeed. Cheap enough to call for each read and write. It must be called for each, because it
  /// counts them: a file that moves little data gets no lease.
  bool considers(const BypassParams& params);
  /// A server has written to the datafile of this slot. If the lease was refused because there was no datafile yet, it
  /// may be asked for again at once.
  void written_by_server(std::uint32_t slot);
  /// Whether this client may write this slot's datafile by itself, or may find out with the next write.
  bool may_write(std::uint32_t slot) const;
  /// Whether leases for all of these slots are held. Asks for missing ones. Only one call asks the server at a time.
  /// Other calls do not wait for it, unless they demand the path kBypass.
  job::Task<bool> ready(const BypassParams& params, Limits limits);
  /// Why ready() returned false, for people.
  const std::string& refusal() const { return refusal_; }

  /// The result of one slot's share.
  struct MoveResult {
    std::uint64_t bytes = 0;
    std::uint64_t datafile_bytes = 0;  // size of the datafile after the move
    std::uint64_t counter = 0;         // a lower bound of the datafile's change counter; 0: unknown
  };
  /// Nothing: the server has recalled the lease, and must be asked to move the data. kLostWrite: the server has fenced
  /// this client in the middle of the write, so the written data may be lost.
  job::Task<Result<std::optional<MoveResult>>> move(const SlotWork& work);

  /// Call it before the file is closed. Tells the servers how much was moved, and returns all leases.
  job::Task<void> give_back(Limits limits);
  /// Bytes that this file has moved past the servers, in both directions.
  std::uint64_t bytes_moved() const { return bytes_moved_; }

 private:
  struct Held {
    rpc::Channel* channel = nullptr;
    std::uint64_t id = 0;
    std::unique_ptr<LeasedFile> file;  // null: the server granted a lease that this client cannot use
    bool writable = false;
    std::uint64_t read_bytes = 0;
    std::uint64_t written_bytes = 0;
    std::uint64_t may_write = 0;  // bytes until the device's room is looked at again
    LeaseWords& words() const { return file->words(); }
    bool granted() const { return words().state.load(std::memory_order_acquire) == LeaseWords::kGranted; }
  };
  using HeldPtr = std::shared_ptr<Held>;
  struct SlotLeases {
    HeldPtr reader;
    HeldPtr writer;
    MonoTime not_before;   // no new request before this time, after a refusal
    bool written = false;  // by this open, through the server
  };

  HeldPtr find(std::uint32_t slot, bool for_writing);
  static bool has_room(Held& held, std::uint64_t size);
  bool holds(const BypassParams& params);
  bool enough(const BypassParams& params) const;
  bool worth_it(const BypassParams& params);
  job::Task<Result<void>> ask(const BypassParams& params, Limits limits);
  Result<HeldPtr> take(rpc::Channel& channel, bmi::Address peer, std::uint64_t tag,
                       const wire::BypassLeaseRequest& request, std::size_t index);
  void let_go(std::uint32_t slot, const HeldPtr& held);

  Session& session_;
  LeasedFiles& leased_files_;
  const About about_;
  std::unordered_map<std::uint32_t, SlotLeases> slots_;
  std::vector<HeldPtr> ended_;  // leases whose moved bytes have not been reported yet
  std::string refusal_ = "no lease was asked for yet";
  std::uint64_t bytes_seen_ = 0;
  std::uint64_t transfers_seen_ = 0;
  std::uint64_t bytes_moved_ = 0;
  bool asking_ = false;
  job::Semaphore turn_;
};

}  // namespace spate::client
