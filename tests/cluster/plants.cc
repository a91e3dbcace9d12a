// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/plants.h"

namespace spate::cluster {

std::unique_ptr<trove::Keyval> plant_in_keyval(Plant, trove::Keyval&) { return nullptr; }
std::unique_ptr<trove::Bytestreams> plant_in_bytestreams(Plant, trove::Bytestreams&) { return nullptr; }
std::unique_ptr<meta::IoServers> plant_in_io_servers(Plant, meta::IoServers&) { return nullptr; }
std::unique_ptr<rpc::Service> plant_in_io_service(Plant, rpc::Service&, job::Executor&, job::Gate&) { return nullptr; }

}  // namespace spate::cluster
