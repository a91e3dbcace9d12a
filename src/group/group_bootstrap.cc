// SPDX-License-Identifier: Apache-2.0
#include "group/group_bootstrap.h"

#include "log/fields.h"
#include "log/log.h"

namespace spate::group {
namespace {

/// Number of looks after which the log says again why there is no group yet.
constexpr unsigned kTellEvery = 10;

job::Task<bool> all_are_new(const GroupBootstrapOptions& options, const GroupRecord& record, Link& link,
                            job::StopToken stop) {
  const auto question = std::make_shared<Message>();
  question->group = options.group;
  question->from = options.self;
  question->record = record;
  for (const ServerId other : options.members) {
    if (other == options.self) continue;
    const std::shared_ptr<const Message> sent = question;
    const auto answer = co_await link.send(other, sent, options.timing.message, stop);
    if (!answer || answer->last != trove::LogPosition{} || answer->incomplete) co_return false;
  }
  co_return true;
}

}  // namespace

job::Task<void> bootstrap_group(GroupBootstrapOptions options, coord::Coordinator& coordinator, Link& link,
                                const Member& member, job::Executor& executor, job::StopToken stop) {
  const std::string key = record_key(options.group);
  const GroupRecord record = new_group(options.members, options.min);
  for (unsigned look = 0; !stop.stopped(); ++look) {
    const auto seen = co_await coordinator.read(key, stop);
    if (seen && seen->find(key) != nullptr) co_return;
    if (look % kTellEvery == kTellEvery - 1) {
      SPATE_LOG("group", warn, "no meta server can lead yet: {}",
                !seen                   ? "the coordinator (meta.coordinator) does not answer"
                : member.log().is_new() ? "not all meta servers of spate.toml have been started"
                                        : "the coordinator has no record of this file system, which has been in use; "
                                          "has it lost its data? `spate coord restore` recreates the record");
    }
    if (seen && member.log().is_new()) {
      const bool good = co_await all_are_new(options, record, link, stop);
      if (good) {
        coord::Change change;
        change.compare(key, 0).put(key, encode(record));
        const auto made = co_await coordinator.change(std::move(change), stop);  // another member may be faster
        if (made) SPATE_LOG("group", info, "the group of meta servers is made members={}", options.members.size());
      }
    }
    std::ignore = co_await executor.sleep(options.timing.read_record / 2, stop);
  }
}

}  // namespace spate::group
