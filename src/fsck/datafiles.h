// SPDX-License-Identifier: Apache-2.0
// DatafileCheck: compares the io servers' datafiles with the inodes, page by page.
#pragma once

#include <vector>

#include "fsck/repair_queue.h"

namespace spate::fsck {

/// Checks all servers at once, each target page after page. Life cycle: construct -> run() awaited once -> destroyed.
/// One executor. Pinned.
class DatafileCheck {
 public:
  DatafileCheck(Servers& servers, const Options& options, RepairQueue& queue, Observer& observer)
      : servers_(servers), options_(options), queue_(queue), observer_(observer) {}
  DatafileCheck(const DatafileCheck&) = delete;
  DatafileCheck& operator=(const DatafileCheck&) = delete;

  /// Fails if the meta server does not answer. Records an io server that does not answer.
  job::Task<Result<void>> run(unsigned pass);

  std::uint64_t datafiles() const { return datafiles_; }
  /// Servers whose check did not complete, and why.
  const std::vector<std::string>& unchecked() const { return unchecked_; }

 private:
  using Facts = std::vector<wire::DatafileFact>;

  job::Task<void> check_server(const ServerEntry& server, Result<void>& failure);
  /// True: continue with the next target. False: this server does not answer.
  job::Task<Result<bool>> check_target(ServerId server, TargetId target);
  job::Task<Result<bool>> check_page(ServerId server, Facts page);
  job::Task<Result<bool>> probe(ServerId server, Facts& facts);
  job::Task<Result<std::vector<wire::Judgement>>> cross_check(const Facts& facts);
  job::Task<Result<bool>> check_again(ServerId server, Facts suspects, std::vector<wire::Judgement> before);
  void suspect(const wire::DatafileFact& datafile, const wire::Judgement& judgement);
  void note(ServerId server, const Error& error);

  Servers& servers_;
  const Options& options_;
  RepairQueue& queue_;
  Observer& observer_;
  unsigned pass_ = 1;
  std::uint64_t datafiles_ = 0;
  std::vector<std::string> unchecked_;
};

}  // namespace spate::fsck
