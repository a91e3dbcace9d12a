// SPDX-License-Identifier: Apache-2.0
// OwnWriting: what this client knows of the data of a file that it alone has open for writing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "wire/meta_messages.h"

namespace spate::client {

/// Of a file that this client has made, as long as its lease on the file lasts without a break: an open for writing of
/// another client recalls the lease, and one of this client ends this. So all that was written went through one open.
struct OwnWriting {
  std::uint32_t under_way = 0;            // changes of the data: others may see them already
  std::optional<wire::DataSummary> data;  // of all datafiles, after the last change; nothing: that is not known
};

/// What an own change has opened for writing; no handle: nothing, or nobody knows.
struct OpenedFile {
  Handle handle;
  bool made = false;
};

/// Fills what a file whose size the meta server does not know says through its datafiles.
inline void complete(Attributes& attributes, const wire::DataSummary& data) {
  attributes.size = data.size;
  attributes.allocated_bytes = data.allocated_bytes;
  if (data.change_sum == attributes.change_sum) return;  // not written since mtime was determined or set
  attributes.mtime = std::max(attributes.mtime, data.mtime);
  attributes.ctime = std::max(attributes.ctime, data.mtime);
  attributes.change_sum = data.change_sum;
}

}  // namespace spate::client
