// SPDX-License-Identifier: Apache-2.0
// The proper replies of a file system with one file, a/file, whose two datafiles lie on server 2. Fuzzers change these
// replies.
#pragma once

#include "base/check.h"
#include "datatype/measure.h"
#include "dist/registry.h"
#include "wire/messages.h"

namespace spate::cluster {

inline constexpr FsId kFs{0xF5};
inline constexpr std::uint64_t kStrip = 4096;
inline constexpr std::uint64_t kTable = 77;
inline constexpr std::uint32_t kLeaseMs = 10'000;
inline constexpr Handle kFile{2};
inline constexpr Handle kFolder{3};

inline Attributes attributes_of(bool known) {
  Attributes a;
  a.handle = kFile;
  a.mode = 0644;
  a.size = 10'000;
  a.size_known = known;
  return a;
}

inline Layout layout() {
  Layout l;
  l.strip_bytes = kStrip;
  l.slots = {Slot{{target_id(ServerId(2), 0)}}, Slot{{target_id(ServerId(2), 1)}}};
  return l;
}

template <typename Request>
Result<Request> asked(ByteView body) {
  if constexpr (std::is_same_v<Request, wire::HelloRequest>) {
    SPATE_TRY(auto both, (wire::decode_body_and<Request, wire::HelloOffer>(body)));
    return std::move(both.first);
  } else if constexpr (std::is_same_v<Request, wire::AuthenticateRequest>) {
    SPATE_TRY(auto both, (wire::decode_body_and<Request, wire::AuthenticateFinish>(body)));
    return std::move(both.first);
  } else {
    return wire::decode_body<Request>(body);
  }
}

/// A proper answer to `request`.
template <typename Request, typename Reply>
Reply proper(const Request& request) {
  Reply reply;
  if constexpr (std::is_same_v<Reply, wire::HelloReply>) {
    reply.fs = kFs;
    reply.key_required = false;
  } else if constexpr (std::is_same_v<Reply, wire::AuthenticateReply>) {
    reply.client = ClientId(7);
    reply.epoch = 1;
    reply.ticket.client = ClientId(7);
    reply.lease_ms = 30'000;
    reply.answer_slots = 4;
  } else if constexpr (std::is_same_v<Reply, wire::ObjectReply>) {
    reply.attributes = attributes_of(false);
    reply.layout = layout();
  } else if constexpr (std::is_same_v<Reply, wire::LookupLeaseReply>) {
    reply.object = proper<wire::LookupRequest, wire::ObjectReply>({});
    reply.steps = {{kRootHandle, "a", kFolder, FileType::kDirectory}, {kFolder, "file", kFile, FileType::kRegular}};
    reply.granted = true;
    reply.table = kTable;
    reply.lease_ms = kLeaseMs;
  } else if constexpr (std::is_same_v<Reply, wire::SessionEventsReply>) {
    reply.table = kTable;
  } else if constexpr (std::is_same_v<Reply, wire::OpenReply>) {
    reply.object = proper<wire::LookupRequest, wire::ObjectReply>({});
    reply.capability.handle = Handle(2);
    reply.capability.rights = Rights::kReadWrite;
    reply.capability.expiry = WallTime{1LL << 62U};
    reply.created = true;
  } else if constexpr (std::is_same_v<Reply, wire::ReaddirReply>) {
    reply.entries = {{"file", Handle(2), FileType::kRegular, 5, attributes_of(true), layout()}};
    reply.end = true;
  } else if constexpr (std::is_same_v<Reply, wire::IoStatfsReply>) {
    reply.targets = {{target_id(ServerId(2), 0), 100, 50, 10, 5, 1, "mem"}};
  } else if constexpr (requires { reply.datafiles[0].change_counter; }) {
    if constexpr (requires { request.where.slots; }) reply.datafiles.resize(request.where.slots.size());
    if constexpr (requires { request.slots; }) reply.datafiles.resize(request.slots.size());
    for (auto& state : reply.datafiles) state.size = 6000;
  }
  if constexpr (std::is_same_v<Reply, wire::ReadReply>) {
    const auto distribution =
        make_distribution(request.where.distribution, request.where.strip_bytes, request.where.slot_count);
    SPATE_CHECK(distribution.has_value());  // our own client has made it
    std::uint64_t total = 0;
    for (const wire::SlotRef& ref : request.where.slots) {
      reply.stream_bytes.push_back(datatype::bytes_for_slot(request.what, **distribution, ref.slot));
      total += reply.stream_bytes.back();
    }
    if (total <= request.inline_limit) reply.data.resize(total);
  }
  return reply;
}

/// The bytes that precede the reply to a change.
inline Bytes event_of_change(std::uint64_t order) {
  wire::Touched touched;
  touched.known = true;
  touched.objects = {kFile, kFolder};
  touched.names = {{kFolder, "file"}};
  wire::Granted granted;
  granted.granted = true;
  granted.table = kTable;
  granted.lease_ms = kLeaseMs;
  granted.order = order;
  granted.objects.resize(2);
  granted.objects[0].object = proper<wire::LookupRequest, wire::ObjectReply>({});
  granted.objects[1].object.attributes = attributes_of(true);
  granted.objects[1].object.attributes.handle = kFolder;
  granted.objects[1].object.attributes.type = FileType::kDirectory;
  granted.objects[1].flags = wire::GrantedObject::kSearchable;
  granted.names = {{kFolder, "file", kFile, FileType::kRegular}};
  Bytes out;
  wire::encode_body(touched, out);
  wire::encode_body(granted, out);
  return out;
}

}  // namespace spate::cluster
