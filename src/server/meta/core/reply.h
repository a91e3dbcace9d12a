// SPDX-License-Identifier: Apache-2.0
// Builds replies from records.
#pragma once

#include "server/meta/store/records.h"
#include "wire/meta_messages.h"

namespace spate::meta {

wire::ObjectReply object_reply(const InodeRecord& inode);

}  // namespace spate::meta
