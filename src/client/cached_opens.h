// SPDX-License-Identifier: Apache-2.0
// CachedOpens: files that this client keeps open for reading at the meta server although no program has them open any
// more.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/unique_function.h"
#include "client/attributes/attribute_cache.h"
#include "client/session/session.h"
#include "job/gate.h"
#include "job/stop.h"
#include "job/task.h"
#include "model/capability.h"
#include "wire/meta_messages.h"

namespace spate::client {

/// While there is a lease on a file that was only read, its last close sends nothing to the meta server. The next open
/// for reading takes over the kept open with its capability, without a request. As with any other open, the server ends
/// a kept open with the session, and a removed file lives as long as it is open. So this object closes a kept open when
/// the lease is recalled or expires, when this client changes the file, after a restart of the meta server, and when no
/// program has opened the file for a minute. One executor, except where a function says otherwise. Life cycle:
/// construct -> calls -> stop() -> destroyed.
class CachedOpens {
 public:
  struct CachedOpen {
    Handle handle;
    std::uint8_t open_flags = 0;  // the wire::OpenFlags that the server has judged
    std::uint64_t version = 0;    // version of the attributes by which the server judged them
    Capability capability;
    Incarnation meta;                 // of the meta server that knows of the open
    std::uint64_t request_id = 0;     // request id of the program's close, and of the close sent later
    UniqueFunction<void()> on_ended;  // called when the open has ended, or when a new open has taken it over
  };

  /// Ends one open at the meta server; see Cluster::close.
  using Close = UniqueFunction<job::Task<Result<wire::CloseReply>>(wire::CloseWritersRequest, rpc::SessionEpoch, Limits,
                                                                   UniqueFunction<void()> on_ended)>;
  /// `session` and `attributes` outlive this object, and so do objects that `close` uses.
  CachedOpens(Session& session, AttributeCache& attributes, Close close);
  CachedOpens(const CachedOpens&) = delete;
  CachedOpens& operator=(const CachedOpens&) = delete;

  /// Whether such an open can be taken over by a later one.
  static bool can_be_kept(std::uint8_t open_flags);
  /// Keeps the open. False: this object does not keep it, and `open` is unchanged.
  bool keep(CachedOpen& open);
  /// Takes a kept open that serves this request. Returns the answer that the server would give. Nothing: the server
  /// must be asked.
  std::optional<wire::OpenReply> take(const wire::NamePath& where, std::uint8_t open_flags);

  /// The lease on the file was recalled, or this client has changed the file.
  void changed(Handle file);
  /// The meta server may now be another process, which does not know of the opens. No kept open is taken any more, and
  /// all are closed within seconds.
  void distrust_all();
  /// Closes all opens, within `limits`.
  job::Task<void> stop(Limits limits);

  /// How many opens needed no request. Thread-safe.
  std::uint64_t taken() const { return taken_.load(std::memory_order_relaxed); }
  /// How many opens are kept now. Thread-safe.
  std::uint64_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  struct Idle {
    CachedOpen open;
    MonoTime since;
    bool trusted = true;
  };
  using Place = std::list<Idle>::iterator;

  bool is_good(const CachedOpen& open) const;
  std::optional<Place> find(Handle file, std::uint8_t open_flags) const;
  CachedOpen remove(Place place);
  std::vector<CachedOpen> remove_outlived();
  void close_soon(CachedOpen open);
  job::Task<void> close(CachedOpen open, Limits limits);
  job::Task<void> close_outlived();

  Session& session_;
  AttributeCache& attributes_;
  Close close_;
  std::list<Idle> idle_;  // the longest idle first
  std::unordered_multimap<Handle, Place> places_;
  job::StopSource stopping_;
  bool watching_ = false;  // close_outlived() runs
  std::atomic<std::uint64_t> taken_ = 0;
  std::atomic<std::uint64_t> size_ = 0;
  job::Gate gate_;
};

}  // namespace spate::client
