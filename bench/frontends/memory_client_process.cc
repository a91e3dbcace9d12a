// SPDX-License-Identifier: Apache-2.0
// Replaces assembly::ClientProcess by one whose file system lies in the process itself. It is linked before the real
// one into libraries that are otherwise the product's. Its files are gone when the program ends.
#include <unistd.h>

#include "assembly/client_process.h"
#include "frontends/memory_cluster.h"

namespace spate::assembly {
namespace {

/// A global, since the header of the replaced class has no member for it. A program has only one client.
std::unique_ptr<bench::MemoryCluster> the_cluster;

}  // namespace

Credential own_credential() {
  Credential credential;
  credential.uid = ::geteuid();
  credential.gid = ::getegid();
  return credential;
}

ClientProcess::ClientProcess(config::FileSystemConfig config)
    : config_(std::move(config)), executor_(clock_, {nullptr, config_.client.busy_poll}) {}

Result<std::unique_ptr<ClientProcess>> ClientProcess::open(const ClientSettings& settings) {
  if (the_cluster != nullptr) return Error(Errc::kBusy, "there is a client already");
  std::unique_ptr<ClientProcess> process(new ClientProcess({}));
  the_cluster = std::make_unique<bench::MemoryCluster>(process->executor_);
  SPATE_TRY(std::ignore, process->executor_.run(the_cluster->start()));
  client::Options options = the_cluster->client_options();
  options.credential = settings.credential;
  process->network_ = the_cluster->client_network();
  process->context_ = std::make_unique<job::NetworkContext>(*process->network_, process->executor_);
  process->client_ = std::make_unique<client::Client>(std::move(options), *process->context_, process->random_);
  process->driver_ = std::make_unique<client::Driver>(process->executor_, client::ProgressMode::kReady);
  return process;
}

ClientProcess::~ClientProcess() {
  if (driver_ != nullptr) driver_->run([this]() { return client_->stop(); });
  driver_.reset();
  client_.reset();
  if (the_cluster != nullptr) std::ignore = executor_.run(the_cluster->stop());
  context_.reset();
  network_.reset();
  the_cluster.reset();
}

}  // namespace spate::assembly
