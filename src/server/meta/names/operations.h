// SPDX-License-Identifier: Apache-2.0
// The operations of the meta server: one function each, in a file of its name. wire/*_messages.h describe them.
#pragma once

#include "server/meta/core/operation.h"
#include "wire/batch_messages.h"
#include "wire/check_messages.h"
#include "wire/cluster_messages.h"
#include "wire/lease_messages.h"
#include "wire/meta_messages.h"
#include "wire/mirror_messages.h"
#include "wire/op.h"
#include "wire/queue_messages.h"
#include "wire/xattr_messages.h"

namespace spate::meta {

template <typename Reply>
using Outcome = job::Task<Result<Reply>>;

// Each operation that wire/op.h lists as a read or a change of the meta server is a function of its name, as
//   Outcome<wire::LookupReply> lookup(Operation& operation, const wire::LookupRequest& request);
#define SPATE_DECLARE_OPERATION(id, number, name, callers) \
  Outcome<wire::id##Reply> name(Operation& operation, const wire::id##Request& request);
SPATE_META_READS(SPATE_DECLARE_OPERATION)
SPATE_META_CHANGES(SPATE_DECLARE_OPERATION)
#undef SPATE_DECLARE_OPERATION

/// list_lease() without the leases, for the code that grants them.
Outcome<wire::ListLeaseReply> list_objects(Operation& operation, const wire::ListLeaseRequest& request);

}  // namespace spate::meta
