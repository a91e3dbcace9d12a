// SPDX-License-Identifier: Apache-2.0
// Posts: operations from the post to the completion, while the modules have them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "bmi/core_tables.h"
#include "bmi/module.h"
#include "bmi/network.h"

namespace spate::bmi {

/// A post with its destination, for a module.
struct PreparedPost {
  Module* module = nullptr;
  Post post;
};

/// Thread-safe. Never calls a module while it holds the lock. When no connection can be made by one URL of the address,
/// it posts the operation again by the next one. `tables` and `options` outlive it.
class Posts {
 public:
  Posts(CoreTables& tables, const NetworkOptions& options) : tables_(tables), options_(options) {}
  Posts(const Posts&) = delete;
  Posts& operator=(const Posts&) = delete;

  /// See Network::post_send, post_recv and post_send_unexpected.
  Result<Posted> post(OpKind kind, const Message& message, ContextId context, void* user);
  /// See Network::cancel.
  void cancel(OpId op);
  /// See Sink::completed.
  void completed(std::span<const Outcome> outcomes);

 private:
  Result<std::uint64_t> check(OpKind kind, const Message& message) const;
  /// True: the message has left. No operation exists, only its id.
  bool send_at_once(OpKind kind, Address peer, ContextId context, PreparedPost& prepared);
  /// Creates the operation and fills in its destination in `prepared`.
  Result<void> prepare(OpKind kind, Address peer, ContextId context, PreparedPost& prepared, void* user);
  Posted finish_at_once(OpId id, std::uint64_t actual_size);
  void release(OpId id);
  void finish(Op& op, Errc status, std::uint64_t actual_size);
  bool has_next_url(const Op& op);
  void post_on_next_url(OpId id);
  std::optional<PreparedPost> prepare_next_url(OpId id);

  CoreTables& tables_;
  const NetworkOptions& options_;
};

}  // namespace spate::bmi
