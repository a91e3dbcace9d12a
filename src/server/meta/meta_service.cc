// SPDX-License-Identifier: Apache-2.0
#include "server/meta/meta_service.h"

#include "server/meta/operations.h"

namespace spate::meta {

MetaService::MetaService(MetaOptions options, job::KeyvalContext& store, Random& random, metrics::Registry& metrics,
                         MetaParts parts)
    : core_(std::move(options), store, random, metrics) {
  core_.attach(parts);
  fill_table();
}

void MetaService::fill_table() {
  read<wire::GetattrRequest, &getattr>();
}

}  // namespace spate::meta
