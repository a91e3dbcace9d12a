// SPDX-License-Identifier: Apache-2.0
// Fixture of the attribute cache's tests.
#pragma once

#include "base/expect.h"
#include "client/attributes/attribute_cache.h"

namespace spate::client {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr Handle kDirectory{10};
inline constexpr Handle kFile{11};
inline constexpr std::uint64_t kTable = 77;

class AttributeCacheTest : public ::testing::Test {
 protected:
  static wire::NamePath at(std::string path, std::uint8_t flags = 0) { return {kRootHandle, std::move(path), flags}; }

  /// The reply of a server for "d/f".
  static wire::LookupLeaseReply file_reply(std::uint64_t size = 5) {
    wire::LookupLeaseReply reply;
    reply.object.emplace();
    reply.object->attributes.handle = kFile;
    reply.object->attributes.size = size;
    reply.steps = {{kRootHandle, "d", kDirectory, FileType::kDirectory}, {kDirectory, "f", kFile, FileType::kRegular}};
    reply.granted = true;
    reply.table = kTable;
    reply.lease_ms = 10000;
    return reply;
  }
  void learn(const wire::LookupLeaseReply& reply) { cache.end_lookup(cache.begin_lookup(), &reply); }
  bool kept(const wire::NamePath& where) { return cache.find_attributes(where).has_value(); }

  ManualClock clock;
  AttributeCache cache{{true, 1000}, clock};
};

}  // namespace spate::client
