// SPDX-License-Identifier: Apache-2.0
// Requests and answers of etcd's HTTP gateway (api v3: range and txn).
#pragma once

#include <string>
#include <string_view>

#include "coord/coordinator.h"

namespace spate::coord {

std::string base64(ByteView bytes);
Result<Bytes> from_base64(std::string_view text);

/// Reads all keys that begin with `prefix`, which is not empty.
std::string range_request(std::string_view prefix);
/// Puts `prefix` before each key.
std::string txn_request(std::string_view prefix, const Change& change);

/// kProtocol unless it is an answer of etcd. Removes `prefix` from each key.
Result<Snapshot> range_answer(std::string_view prefix, std::string_view body);
/// As Coordinator::change().
Result<std::uint64_t> txn_answer(std::string_view body);
/// etcd's message for a request that it did not carry out.
std::string error_text(std::string_view body);

}  // namespace spate::coord
