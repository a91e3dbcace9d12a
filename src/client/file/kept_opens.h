// SPDX-License-Identifier: Apache-2.0
// KeptOpens: files that this client has open for reading at the meta server though no program has them open any more.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/unique_function.h"
#include "client/session/limits.h"
#include "job/gate.h"
#include "job/stop.h"
#include "job/task.h"
#include "model/capability.h"
#include "wire/meta_messages.h"

namespace spate::client {

class Cluster;

/// The last close of a file that was only read tells the meta server nothing while there is a lease on the file: the
/// next open for reading takes the open over, with its capability, and asks nobody. The server ends it like any other
/// open when the session ends, and a removed file lives as long as it. So it is closed when the lease is recalled or
/// has run out, when this client changes the file, after a restart of the meta server, and when nobody wants it for a
/// minute. One executor, except where a function says otherwise. Life: construct -> calls -> stop() -> destroyed.
class KeptOpens {
 public:
  struct Kept {
    Handle handle;
    std::uint8_t open_flags = 0;  // wire::OpenFlags that the server has judged
    std::uint64_t version = 0;    // of the attributes by which it has judged them
    Capability capability;
    std::uint64_t request_id = 0;     // of the program's call that closed it: its close has this id
    UniqueFunction<void()> on_ended;  // the open has ended, or belongs to somebody who keeps account of it
  };

  /// `cluster` outlives it.
  explicit KeptOpens(Cluster& cluster);
  KeptOpens(const KeptOpens&) = delete;
  KeptOpens& operator=(const KeptOpens&) = delete;

  /// Whether such an open can be taken over by a later one.
  static bool can_be_kept(std::uint8_t open_flags);
  /// False: it is not kept, and `open` is as it was.
  bool keep(Kept& open);
  /// An open that is kept and good for this: what the server would answer. Nothing: the server must be asked.
  std::optional<wire::OpenReply> take(const wire::NamePath& where, std::uint8_t open_flags);

  /// The lease was recalled, or this client has changed the file.
  void changed(Handle file);
  /// The meta server may be another process, which need not know of what is open. None is taken any more; they are
  /// closed within seconds.
  void distrust_all();
  /// Closes all, within `limits`.
  job::Task<void> stop(Limits limits);

  /// How many opens asked nobody. Thread-safe.
  std::uint64_t taken() const { return taken_.load(std::memory_order_relaxed); }
  /// How many are kept now. Thread-safe.
  std::uint64_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  struct Idle {
    Kept open;
    MonoTime since;
    bool trusted = true;
  };
  using Place = std::list<Idle>::iterator;

  bool is_good(const Kept& open) const;
  std::optional<Place> find(Handle file, std::uint8_t open_flags) const;
  Kept remove(Place place);
  std::vector<Kept> remove_outlived();
  void close_soon(Kept open);
  job::Task<void> close(Kept open, Limits limits);
  job::Task<void> close_outlived();

  Cluster& cluster_;
  std::list<Idle> idle_;  // the longest idle first
  std::unordered_multimap<Handle, Place> places_;
  job::StopSource stopping_;
  bool watching_ = false;  // close_outlived() runs
  std::atomic<std::uint64_t> taken_ = 0;
  std::atomic<std::uint64_t> size_ = 0;
  job::Gate gate_;
};

}  // namespace spate::client
