// SPDX-License-Identifier: Apache-2.0
// Values whose bytes are kept in the golden files: every field is given, none is its default, and no two neighbours are
// equal, so that fields that change places are seen. Never changed: a later version adds values with its own fields.
#pragma once

#include <vector>

#include "base/checksum.h"
#include "model/capability.h"
#include "model/cluster_map.h"
#include "wire/messages.h"

namespace spate::golden {

inline constexpr FsId kFs{0x1122334455667788};

Key server_key();
Key client_key();

/// Of a message (or header); several where optional fields are there or not.
template <typename T>
std::vector<T> samples();

Attributes sample_attributes();
Layout sample_layout();
Layout sample_mirrored_layout();
DataGroup sample_group();
Credential sample_credential();
Capability sample_capability();  // signed
SessionTicket sample_ticket();   // signed
ClusterMap sample_map();
/// One of each kind.
std::vector<datatype::Description> sample_descriptions();

}  // namespace spate::golden
