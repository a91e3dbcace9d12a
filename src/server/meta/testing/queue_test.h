// SPDX-License-Identifier: Apache-2.0
// For tests: clients that send queued changes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "server/meta/leases/leases_test.h"
#include "wire/queue_messages.h"

namespace spate::meta {

/// A client that counts its changes and has handles.
struct Queueing {
  TestClient client;
  std::uint64_t next = 1;
  Handle unused;  // the next handle of its range
};

class QueueTest : public MetaLeases {
 protected:
  explicit QueueTest(std::uint64_t seed = 1, bool overlap = false) : MetaLeases(seed, overlap) {}

  static constexpr std::uint64_t kFeatures = wire::kLeaseFeatures | wire::kFeatureDelegates;

  Queueing queueing(Credential who = alice()) {
    Queueing q{connect(std::move(who)), 1, {}};
    q.client.features = kFeatures;
    const auto reserved = reserve(q);
    EXPECT_OK(reserved);
    if (reserved) q.unused = reserved->first;
    return q;
  }
  Result<wire::ReserveHandlesReply> reserve(Queueing& q, std::uint32_t count = 100) {
    return asked<wire::ReserveHandlesReply>(q.client, wire::ReserveHandlesRequest{kRootHandle, count});
  }

  static wire::NamePath in(Handle directory, std::string name) {
    wire::NamePath where = at(std::move(name));
    where.start = directory;
    return where;
  }
  template <typename Request>
  wire::QueuedChange change(const Request& request, Handle handle = {}) {
    wire::QueuedChange out;
    out.op = Request::kOp;
    wire::encode_body(request, out.body);
    out.at = clock.wall();
    out.handle = handle;
    return out;
  }
  static Handle take(Queueing& q) { return std::exchange(q.unused, Handle(q.unused.value + 1)); }
  wire::QueuedChange mkdir(Queueing& q, Handle directory, std::string name, std::uint32_t mode = 0755) {
    wire::MkdirRequest request;
    request.where = in(directory, std::move(name));
    request.attributes.mode = mode;
    return change(request, take(q));
  }
  static wire::CreateRequest create_request(Handle directory, std::string name,
                                            std::uint8_t flags = wire::kOpenExclusive) {
    wire::CreateRequest request;
    request.where = in(directory, std::move(name));
    request.attributes.mode = 0644;
    request.open_flags = flags;
    return request;
  }
  wire::QueuedChange create(Queueing& q, Handle directory, std::string name,
                            std::uint8_t flags = wire::kOpenExclusive) {
    return change(create_request(directory, std::move(name), flags), take(q));
  }
  wire::QueuedChange symlink(Queueing& q, Handle directory, std::string name) {
    wire::SymlinkRequest request;
    request.where = in(directory, std::move(name));
    request.target = "target";
    return change(request, take(q));
  }
  wire::QueuedChange chmod(Handle object, std::uint32_t mode) {
    wire::SetattrRequest request;
    request.where = in(object, "");
    request.mode = mode;
    return change(request);
  }
  wire::QueuedChange unlinking(Handle directory, std::string name) {
    return change(wire::UnlinkRequest{in(directory, std::move(name))});
  }
  wire::QueuedChange directory_removal(Handle directory, std::string name) {
    return change(wire::RmdirRequest{in(directory, std::move(name))});
  }
  wire::QueuedChange close(Handle file, Rights rights) { return change(close_request(file, rights)); }

  /// Sends changes with these numbers.
  Result<wire::QueuedChangesReply> send(Queueing& q, std::uint64_t first, std::vector<wire::QueuedChange> changes) {
    return asked<wire::QueuedChangesReply>(q.client, wire::QueuedChangesRequest{first, std::move(changes)}, no_id());
  }
  /// Sends the next changes.
  Result<wire::QueuedChangesReply> send(Queueing& q, std::vector<wire::QueuedChange> changes) {
    const std::uint64_t first = std::exchange(q.next, q.next + changes.size());
    return send(q, first, std::move(changes));
  }
  static std::vector<Errc> statuses(const Result<wire::QueuedChangesReply>& reply) {
    EXPECT_OK(reply);
    std::vector<Errc> out;
    if (!reply) return out;
    for (const wire::BatchedAnswer& answer : reply->answers) out.push_back(answer.status);
    return out;
  }
};

}  // namespace spate::meta
