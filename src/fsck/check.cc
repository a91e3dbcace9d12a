// SPDX-License-Identifier: Apache-2.0
#include "fsck/check.h"

#include "fsck/copies.h"
#include "fsck/datafiles.h"
#include "fsck/name_space.h"
#include "fsck/parents.h"
#include "wire/cluster_messages.h"
#include "wire/meta_messages.h"

namespace spate::fsck {
namespace {

/// One pass over everything. Sets the parts of `summary` that a pass determines.
job::Task<Result<void>> run_pass(Servers& servers, const Options& options, Observer& observer, RepairQueue& queue,
                                 Summary& summary) {
  const unsigned pass = ++summary.passes;
  queue.begin_pass(pass);
  servers.forget_failures();
  SizeCheck sizes(servers, queue);
  NameSpaceCheck names(servers, options, queue, observer, options.data ? &sizes : nullptr);
  SPATE_CO_TRY(std::ignore, co_await names.run(pass));
  DatafileCheck datafiles(servers, options, queue, observer);
  CopyCheck copies(servers, options, queue, observer);
  if (options.data) {
    SPATE_CO_TRY(std::ignore, co_await datafiles.run(pass));
    SPATE_CO_TRY(std::ignore, co_await copies.run(pass));
  }
  SPATE_CO_TRY(std::ignore, co_await queue.settle());
  summary.inodes = names.inodes();
  summary.entries = names.entries();
  summary.unfinished = names.unfinished();
  summary.datafiles = datafiles.datafiles();
  summary.unchecked = datafiles.unchecked();
  summary.unchecked.insert(summary.unchecked.end(), copies.unchecked().begin(), copies.unchecked().end());
  summary.undecided = queue.undecided() + copies.undecided();
  summary.left = queue.left();
  co_return Result<void>();
}

}  // namespace

job::Task<Result<Summary>> run(Servers& servers, const Options& options, Observer& observer) {
  SPATE_CO_TRY(std::ignore, co_await servers.learn_servers());
  Summary summary;
  RepairQueue queue(servers, options, observer);
  for (unsigned spent = 0; spent < options.max_passes;) {
    const std::uint64_t before = queue.repaired();
    SPATE_CO_TRY(std::ignore, co_await run_pass(servers, options, observer, queue, summary));
    summary.found = queue.found();
    summary.repaired = queue.repaired();
    const bool mended = summary.repaired > before;
    if (!options.repair || (!mended && summary.undecided == 0)) break;
    // A pass that has repaired something but had no room for all findings does not count: a large amount of damage is
    // repaired to the end.
    if (!queue.overflowed() || !mended) ++spent;
  }
  if (options.repair) {
    SPATE_CO_TRY(summary.parents, co_await fill_parents(servers, options));
  }
  if (summary.repaired > 0 || summary.parents > 0) {
    const wire::MetaSyncRequest request;
    SPATE_CO_TRY(std::ignore, co_await servers.ask_meta<wire::MetaSyncReply>(request));
  }
  co_return summary;
}

}  // namespace spate::fsck
