// SPDX-License-Identifier: Apache-2.0
#include "preload/locks.h"

#include <sys/file.h>

#include <map>

#include "preload/broker_link.h"

namespace spate::preload {
namespace {

/// The files on which this process may have record locks, and the incarnation of the broker that has them.
struct Locked {
  using File = std::pair<Mount*, Handle>;
  struct At {
    std::uint64_t broker = 0;
    std::uint64_t incarnation = 0;  // 0: this program has not asked that broker
  };
  std::mutex mutex;
  std::map<File, At> files;
  bool looked = false;  // whether it has looked for locks that an earlier program of this process has left
};

Locked*& locked() {
  static Locked* all = new Locked;
  return all;
}

/// The result of a lock request that the broker has refused.
Reply refuse_lock(const Error& error) {
  if (error.code() != Errc::kCancelled) return refuse(error);
  const long result = interruption();
  return result == 0 ? minus(EINTR) : result;
}

/// Record locks of the process (F_SETLK and others). The file is entered first, because it may be locked whatever the
/// reply is.
Reply set_of_process(Description& d, int descriptor, BrokerRequest request) {
  look_at_inherited_locks();
  auto broker = broker_of(d);
  if (!broker) return refuse(broker.error());
  Locked& all = *locked();
  {
    const std::lock_guard guard(all.mutex);
    request.incarnation =
        all.files.try_emplace({&d.mount(), d.handle()}, Locked::At{*broker, 0}).first->second.incarnation;
  }
  d.state()->kept.fetch_or(SharedState::kRecordLocked);
  const auto own = d.mount().broker();
  const bool known_there = own && own->id == *broker;
  const auto reply = ask_about(d, known_there ? -1 : descriptor, request);
  if (!reply) return refuse_lock(reply.error());
  const std::lock_guard guard(all.mutex);
  const auto file = all.files.find({&d.mount(), d.handle()});
  if (file != all.files.end()) file->second.incarnation = reply->incarnation;
  return 0;
}

/// flock and OFD locks. A new broker has none of this file's locks: then a lock request fails, and an unlock request
/// begins again.
Reply set_of_file(Description& d, int descriptor, BrokerRequest request) {
  request.incarnation = d.state()->locked_at.load();
  d.state()->kept.fetch_or(SharedState::kLocked);
  const auto reply = ask_about(d, descriptor, request);
  if (!reply) return refuse_lock(reply.error());
  d.state()->locked_at = reply->incarnation;
  return 0;
}

}  // namespace

/// Looks at open files that had record locks when the process became this program, because they may still have them.
void look_at_inherited_locks() {
  Locked& all = *locked();
  {
    const std::lock_guard guard(all.mutex);
    if (std::exchange(all.looked, true)) return;
  }
  for (int number = next_descriptor(0); number >= 0; number = next_descriptor(number + 1)) {
    const DescriptionRef d = description_of(number);
    if (d == nullptr || (d->state()->kept.load() & SharedState::kRecordLocked) == 0) continue;
    auto broker = broker_of(*d);
    if (!broker) continue;
    const std::lock_guard guard(all.mutex);
    all.files.try_emplace({&d->mount(), d->handle()}, Locked::At{*broker, 0});
  }
}

Reply record_lock(Description& d, int descriptor, int command, struct ::flock* lock) {
  if ((d.flags() & O_PATH) != 0) return minus(EBADF);
  posix::RecordLock params;
  params.range = *lock;
  params.open_file = command == F_OFD_GETLK || command == F_OFD_SETLK || command == F_OFD_SETLKW;
  if (params.open_file && lock->l_pid != 0) return minus(EINVAL);
  const bool tests = command == F_GETLK || command == F_OFD_GETLK;
  auto spec = d.run([&](posix::OpenFile& file) { return file.record_lock_spec(params, !tests); });
  if (!spec) return refuse(spec.error());
  BrokerRequest request;
  request.word = tests ? BrokerOp::kTest : BrokerOp::kLock;
  request.lock = *std::move(spec);
  request.wait = command == F_SETLKW || command == F_OFD_SETLKW;
  if (!tests) return params.open_file ? set_of_file(d, descriptor, request) : set_of_process(d, descriptor, request);
  const auto reply = ask_about(d, descriptor, request);
  if (!reply) return refuse(reply.error());
  *lock = posix::as_flock(*lock, reply->conflict);
  return 0;
}

Reply whole_lock(Description& d, int descriptor, int operation) {
  if ((d.flags() & O_PATH) != 0) return minus(EBADF);
  auto open = d.file();
  if (!open) return refuse(open.error());
  auto spec = (*open)->flock_spec(operation);
  if (!spec) return refuse(spec.error());
  BrokerRequest request;
  request.word = BrokerOp::kLock;
  request.lock = *std::move(spec);
  request.wait = (operation & LOCK_NB) == 0;
  return set_of_file(d, descriptor, request);
}

void drop_record_locks(Description& d) {
  Locked& all = *locked();
  BrokerRequest request;
  request.word = BrokerOp::kDrop;
  request.lock.handle = d.handle();
  Locked::At at;
  {
    const std::lock_guard guard(all.mutex);
    const auto file = all.files.find({&d.mount(), d.handle()});
    if (file == all.files.end()) return;
    at = std::move(file->second);
    all.files.erase(file);
  }
  const Question question{d.mount(), at.broker, request};
  std::ignore = ask_broker(question);
}

void drop_all_record_locks() {
  Locked& all = *locked();
  std::map<Locked::File, Locked::At> files;
  {
    const std::lock_guard guard(all.mutex);
    files.swap(all.files);
  }
  for (const auto& [file, at] : files) {
    BrokerRequest request;
    request.word = BrokerOp::kDrop;
    request.lock.handle = file.second;
    const Question question{*file.first, at.broker, request};
    std::ignore = ask_broker(question);
  }
}

void forget_record_locks() {
  locked() = new Locked;
  locked()->looked = true;
}

}  // namespace spate::preload
