// SPDX-License-Identifier: Apache-2.0
// SoleWriterState: what this client knows about the data of a file that only it has open for writing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "wire/meta_messages.h"

namespace spate::client {

/// For a file that this client has made, while its lease on the file lasts without a break. An open for writing by
/// another client recalls the lease, and a second open for writing by this client ends this knowledge. So all data of
/// the file was written through one open.
struct SoleWriterState {
  std::uint32_t under_way = 0;            // changes of the data that are under way; other clients may see them already
  std::optional<wire::DataSummary> data;  // state of all datafiles after the last change; nothing: it is not known
};

/// The file that an own change has opened for writing. No handle: the change has opened none, or it is not known which.
struct OpenedFile {
  Handle handle;
  bool made = false;
};

/// Fills in from the datafiles the size and times of a file whose size the meta server does not know.
inline void complete(Attributes& attributes, const wire::DataSummary& data) {
  attributes.size = data.size;
  attributes.allocated_bytes = data.allocated_bytes;
  if (data.change_sum == attributes.change_sum) return;  // nobody has written since mtime was determined or set
  attributes.mtime = std::max(attributes.mtime, data.mtime);
  attributes.ctime = std::max(attributes.ctime, data.mtime);
  attributes.change_sum = data.change_sum;
}

}  // namespace spate::client
