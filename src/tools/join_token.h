// SPDX-License-Identifier: Apache-2.0
// JoinToken: what a machine needs to join a file system, as one word that people copy. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/checksum.h"
#include "base/result.h"
#include "model/ids.h"

namespace spate::tools {

/// A secret: a person who has it may do everything that its keys allow.
struct JoinToken {
  FsId fs;
  ServerId meta;  // the meta server, whose address is named beside the token
  Key client_key{};
  std::optional<Key> server_key;  // none: for machines that use the file system and store nothing
};

/// "spj1.FS.SERVER.KEY[.KEY].SUM", numbers and keys as hex digits, SUM the CRC-32C of everything before it.
std::string to_text(const JoinToken& token);
/// kInvalidArgument for any text that to_text() does not make; the error does not contain the text.
Result<JoinToken> parse_join_token(std::string_view text);

}  // namespace spate::tools
