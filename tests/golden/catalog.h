// SPDX-License-Identifier: Apache-2.0
// Catalog: everything that this version sends or stores, with the bytes that it writes and a way to read them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace spate::golden {

struct Item {
  std::string name;     // of its golden file, without ".hex": "wire/create.request"
  std::string comment;  // first line of the file
  Bytes bytes;          // as this version writes it
  /// Reads foreign bytes as this kind and compares with the value that was written: "", or what is wrong.
  std::function<std::string(ByteView)> read;
  int since = 1;  // its file lies in v1, v2 ...: the version that first wrote it so
};

/// wire/: requests, replies and headers of the protocol.
std::vector<Item> wire_items();
/// auth/: one handshake, with everything that is derived on the way.
std::vector<Item> auth_items();
/// tcp/: what the tcp module sends.
std::vector<Item> tcp_items();
/// meta/, io/: records and keys of the servers' stores.
std::vector<Item> record_items();
/// stored/: files, and values within others.
std::vector<Item> stored_items();

std::vector<Item> all_items();

}  // namespace spate::golden
