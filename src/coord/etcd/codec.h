// SPDX-License-Identifier: Apache-2.0
// Requests and answers of etcd's HTTP gateway (api v3: range, txn, cluster and maintenance).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coord/coordinator.h"
#include "coord/voters.h"

namespace spate::coord {

std::string base64(ByteView bytes);
Result<Bytes> from_base64(std::string_view text);

/// Reads all keys that begin with `prefix`, which is not empty.
std::string range_request(std::string_view prefix);
/// Puts `prefix` before each key.
std::string txn_request(std::string_view prefix, const Change& change);

/// Adds a learner.
std::string add_member_request(std::string_view peer_url);
/// Names a member to promote or to remove.
std::string member_request(std::uint64_t id);

/// kProtocol unless it is an answer of etcd. Removes `prefix` from each key.
Result<Snapshot> range_answer(std::string_view prefix, std::string_view body);
/// As Coordinator::change().
Result<std::uint64_t> txn_answer(std::string_view body);
/// The members in the answer to `list`. kProtocol: it is none.
Result<std::vector<Voter>> members_answer(std::string_view body);
/// The answer of one member about itself. kTryAgain: it knows no leader, so it has no contact with a majority.
Result<void> status_answer(std::string_view body);
/// etcd's message for a request that it did not carry out.
std::string error_text(std::string_view body);

}  // namespace spate::coord
