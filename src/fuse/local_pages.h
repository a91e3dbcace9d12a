// SPDX-License-Identifier: Apache-2.0
// Pages of a directory by local cookies (client::local_cookie()) from pages of the meta server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.h"
#include "wire/meta_messages.h"

namespace spate::fuse {

/// Returns the server's page behind a cookie of the server.
using ServerPages = std::function<Result<wire::ReaddirReply>(std::uint64_t cookie)>;

/// The entries behind the local cookie `cookie`, by their local cookies, for a reader that has begun with these. Reads
/// the whole directory each time, but keeps only the first `most` entries, and while it reads little more than twice as
/// many. Entries with one cookie stay together, so `most` is greater than their number.
Result<wire::ReaddirReply> page_after_local(const ServerPages& pages, std::uint64_t cookie, std::size_t most);

}  // namespace spate::fuse
