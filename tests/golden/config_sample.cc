// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/config_sample.h"

#include "tests/golden/samples.h"

namespace spate::golden {

config::FileSystemConfig sample_config() {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  config::FileSystemConfig c;
  c.fs = {kFs, "scratch-7", config::Auth::kKey, "/etc/spate/client.key", "/etc/spate/server.key"};
  c.defaults = {65536, 3};
  c.meta.sync = milliseconds(250);
  c.meta.session_lease = seconds(45);
  config::ServerConfig meta;
  meta.id = ServerId(1);
  meta.urls = {"tcp://meta-1:7400", "tcp://[fe80::1]:7400"};
  meta.roles.meta = true;
  meta.keyval = "/var/lib/spate/meta";
  meta.trove = config::TroveKind::kPool;
  config::ServerConfig io;
  io.id = ServerId(2);
  io.urls = {"tcp://10.0.0.2:7401"};
  io.roles.io = true;
  io.storage = {"/disk1/spate", "/disk2/spate"};
  io.keyval = "/disk1/keyval";
  io.trove = config::TroveKind::kUring;
  c.servers = {meta, io};
  c.client.deadline = seconds(20);
  c.log = {"warn,rpc=debug", config::LogFormat::kJson, "/var/log/spate.log", {}};
  c.network.eager_limit = 8192;
  c.network.max_unexpected = 131072;
  c.network.buffered_per_peer = 2 << 20;
  c.network.connect_timeout = seconds(7);
  return c;
}

}  // namespace spate::golden
