// SPDX-License-Identifier: Apache-2.0
// The operations of the name space: one function each, in a file of its name. wire/meta_messages.h describes each.
#pragma once

#include "server/meta/core/operation.h"
#include "wire/batch_messages.h"
#include "wire/cluster_messages.h"
#include "wire/meta_messages.h"
#include "wire/mirror_messages.h"
#include "wire/xattr_messages.h"

namespace spate::meta {

template <typename Reply>
using Outcome = job::Task<Result<Reply>>;

Outcome<wire::LookupReply> lookup(Operation& operation, const wire::LookupRequest& request);
Outcome<wire::LookupLeaseReply> lookup_lease(Operation& operation, const wire::LookupLeaseRequest& request);
Outcome<wire::AccessReply> access(Operation& operation, const wire::AccessRequest& request);
Outcome<wire::GetattrReply> getattr(Operation& operation, const wire::GetattrRequest& request);
Outcome<wire::SetattrReply> setattr(Operation& operation, const wire::SetattrRequest& request);
Outcome<wire::CreateReply> create(Operation& operation, const wire::CreateRequest& request);
Outcome<wire::OpenReply> open(Operation& operation, const wire::OpenRequest& request);
Outcome<wire::CloseReply> close(Operation& operation, const wire::CloseRequest& request);
Outcome<wire::CloseReply> close_writers(Operation& operation, const wire::CloseWritersRequest& request);
Outcome<wire::TruncateReply> truncate(Operation& operation, const wire::TruncateRequest& request);
Outcome<wire::MkdirReply> mkdir(Operation& operation, const wire::MkdirRequest& request);
Outcome<wire::SymlinkReply> symlink(Operation& operation, const wire::SymlinkRequest& request);
Outcome<wire::LinkReply> link(Operation& operation, const wire::LinkRequest& request);
Outcome<wire::UnlinkReply> unlink(Operation& operation, const wire::UnlinkRequest& request);
Outcome<wire::RmdirReply> rmdir(Operation& operation, const wire::RmdirRequest& request);
Outcome<wire::RenameReply> rename(Operation& operation, const wire::RenameRequest& request);
Outcome<wire::ChangeBatchReply> change_batch(Operation& operation, const wire::ChangeBatchRequest& request);
Outcome<wire::ReaddirReply> readdir(Operation& operation, const wire::ReaddirRequest& request);
Outcome<wire::ListLeaseReply> list_lease(Operation& operation, const wire::ListLeaseRequest& request);
/// list_lease() without the leases, for the code that grants them.
Outcome<wire::ListLeaseReply> list_objects(Operation& operation, const wire::ListLeaseRequest& request);
Outcome<wire::GetxattrReply> getxattr(Operation& operation, const wire::GetxattrRequest& request);
Outcome<wire::SetxattrReply> setxattr(Operation& operation, const wire::SetxattrRequest& request);
Outcome<wire::ListxattrReply> listxattr(Operation& operation, const wire::ListxattrRequest& request);
Outcome<wire::RemovexattrReply> removexattr(Operation& operation, const wire::RemovexattrRequest& request);
Outcome<wire::MetaStatfsReply> meta_statfs(Operation& operation, const wire::MetaStatfsRequest& request);
Outcome<wire::MetaSyncReply> meta_sync(Operation& operation, const wire::MetaSyncRequest& request);
Outcome<wire::DataGroupsReply> data_groups(Operation& operation, const wire::DataGroupsRequest& request);
Outcome<wire::ClusterMapReply> cluster_map(Operation& operation, const wire::ClusterMapRequest& request);

}  // namespace spate::meta
