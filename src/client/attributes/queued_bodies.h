// SPDX-License-Identifier: Apache-2.0
// The requests that tell the server later what this client has answered itself.
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"
#include "client/attributes/local_changes.h"
#include "wire/meta_messages.h"

namespace spate::client {

template <typename Request>
Bytes encoded(const Request& request) {
  Bytes body;
  wire::encode_body(request, body);
  return body;
}

struct ObjectToMake {
  wire::NamePath where;
  FileType type = FileType::kRegular;  // or a directory, or a symbolic link
  wire::NewAttributes attributes;
  std::string target;           // of a link
  std::uint8_t open_flags = 0;  // of a file: the rights with which it is opened
};
wire::Op creation_op(FileType type);
Bytes creation_of(ObjectToMake made);
/// `op`: kUnlink or kRmdir.
Bytes removal_of(wire::NamePath where, wire::Op op);

/// The one change that follows the data of a file: its close, or the attributes that were set.
struct AfterData {
  wire::Op op{};
  Bytes body;
};
/// `data`: nothing if it is not known.
AfterData after_data(Handle handle, const ChangesAfterData::Held& file, const std::optional<wire::DataSummary>& data);

}  // namespace spate::client
