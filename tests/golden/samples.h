// SPDX-License-Identifier: Apache-2.0
// The values whose bytes the golden files keep. No field has its default, and neighbours differ, so that swapped fields
// are noticed. Samples never change: a later version adds values with its own fields.
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

/// The samples of a message or header. There are several if optional fields may be absent.
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
/// One description of each kind.
std::vector<datatype::Description> sample_descriptions();

}  // namespace spate::golden
