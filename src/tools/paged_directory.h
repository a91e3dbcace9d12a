// SPDX-License-Identifier: Apache-2.0
// PagedDirectory: the entries of a directory, which the meta server lists page by page.
#pragma once

#include <utility>
#include <vector>

#include "client/client.h"

namespace spate::tools {

/// The entries that were listed and not taken yet. Movable, but not while list_more() runs.
class PagedDirectory {
 public:
  /// `attributes`: each entry comes with its attributes, if the server has them at hand.
  PagedDirectory(Handle directory, bool attributes) {
    request_.handle = directory;
    request_.attributes = attributes;
  }
  Handle handle() const { return request_.handle; }
  bool has_next() const { return next_ < entries_.size(); }
  /// Whether the last page was listed. After an error there are no further pages.
  bool all_listed() const { return end_; }
  /// The next entry; only if there is one.
  wire::DirectoryEntry take() { return std::move(entries_[next_++]); }
  /// Lists the next page; only if all entries of the last one were taken.
  job::Task<Result<void>> list_more(client::Client& client);

 private:
  wire::ReaddirRequest request_;
  std::vector<wire::DirectoryEntry> entries_;
  std::size_t next_ = 0;
  bool end_ = false;
};

}  // namespace spate::tools
