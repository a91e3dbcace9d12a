// SPDX-License-Identifier: Apache-2.0
// The operations of the name space, one function each, in files of their names. What each does: wire/meta_messages.h.
#pragma once

#include "server/meta/operation.h"
#include "wire/meta_messages.h"

namespace spate::meta {

job::Task<Result<wire::GetattrReply>> getattr(Operation& operation, const wire::GetattrRequest& request);

}  // namespace spate::meta
