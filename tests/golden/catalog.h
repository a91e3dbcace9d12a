// SPDX-License-Identifier: Apache-2.0
// Catalog: everything that this version sends or stores: the bytes, and functions to read them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace spate::golden {

struct Item {
  std::string name;     // name of its golden file without ".hex": "wire/create.request"
  std::string comment;  // first line of the file
  Bytes bytes;          // as this version writes it
  /// Reads bytes as this kind, and compares them with the value that was written. Returns what is wrong, or "".
  std::function<std::string(ByteView)> read;
  int since = 1;  // the version that first wrote these bytes; the golden file lies in v1, v2 ...
};

/// wire/: requests, replies and headers of the protocol.
std::vector<Item> wire_items();
/// auth/: a handshake, and all values derived from it.
std::vector<Item> auth_items();
/// tcp/: what the tcp module sends.
std::vector<Item> tcp_items();
/// meta/, io/: records and keys in the servers' stores.
std::vector<Item> record_items();
/// stored/: whole files, and values that lie within other values.
std::vector<Item> stored_items();

std::vector<Item> all_items();

}  // namespace spate::golden
