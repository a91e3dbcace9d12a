// SPDX-License-Identifier: Apache-2.0
// The format record of a store: docs/disk-keyval.md, "Format record".
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace spate::trove {

/// The record as this build writes it.
Bytes format_record();
/// kFormatTooNew for a store of a newer build, kCorrupt if the bytes are no format record. `folder` is for the error.
Result<void> check_format_record(ByteView record, const std::string& folder);

}  // namespace spate::trove
