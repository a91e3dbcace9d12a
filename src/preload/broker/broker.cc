// SPDX-License-Identifier: Apache-2.0
#include "preload/broker/broker.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

#include "log/log.h"

namespace spate::preload {
namespace {

/// How long the broker continues without anything to do, so that a script that locks, unlocks and locks again finds the
/// same broker.
constexpr Duration kIdleTimeout = std::chrono::seconds(2);
constexpr int kLookMs = 500;
constexpr std::size_t kMostConnections = 4096;
constexpr std::size_t kMostOfOneProcess = kMostConnections / 4;

bool ready(int descriptor) {
  pollfd look{descriptor, POLLIN, 0};
  return ::poll(&look, 1, 0) > 0;
}

void wake_up(int event) {
  const std::uint64_t one = 1;
  std::ignore = ::write(event, &one, sizeof one);
}

}  // namespace

Result<std::unique_ptr<Broker>> Broker::make(assembly::ClientProcess& process, UniqueFd listening) {
  SPATE_TRY(auto files, HeldFiles::make());
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return errno_error(errno, "eventfd");
  return std::unique_ptr<Broker>(new Broker(process, std::move(listening), std::move(files), std::move(wake)));
}

Broker::Broker(assembly::ClientProcess& process, UniqueFd listening, std::unique_ptr<HeldFiles> files, UniqueFd wake)
    : process_(process),
      listening_(std::move(listening)),
      files_(std::move(files)),
      wake_(std::move(wake)),
      incarnation_(process.random().next() | 1U),
      active_(process.clock().now()) {}

Broker::~Broker() = default;

bool Broker::idle() const {
  if (!files_->all().empty() || !releases_.empty()) return false;
  const auto busy = [](const Connection& c) { return c.work != nullptr; };
  const auto locked = [](const auto& entry) { return !entry.second.locked.empty(); };
  if (std::any_of(connections_.begin(), connections_.end(), busy) ||
      std::any_of(programs_.begin(), programs_.end(), locked))
    return false;
  return process_.clock().now() - active_ > kIdleTimeout;
}

void Broker::run() {
  while (!idle()) {
    wait();
    std::uint64_t count = 0;
    std::ignore = ::read(wake_.get(), &count, sizeof count);
    collect();
    files_->look_for_gone();
    look_for_ended();
    accept_all();
    for (Connection& connection : connections_) hear(connection);
    connections_.remove_if([](const Connection& c) { return c.lost && c.work == nullptr; });
    release_what_ended();
    settle();
  }
}

void Broker::wait() {
  std::vector<pollfd> all{{listening_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}, {files_->inotify(), POLLIN, 0}};
  for (const Connection& connection : connections_) {
    if (!connection.lost) all.push_back({connection.socket->get(), POLLIN, 0});
  }
  for (const auto& [pid, program] : programs_) {
    if (!program.ended) all.push_back({program.pidfd.get(), POLLIN, 0});
  }
  ::poll(all.data(), all.size(), kLookMs);
}

void Broker::accept_all() {
  for (;;) {
    UniqueFd socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    ucred who{};
    socklen_t size = sizeof who;
    // The broker cannot see a process of an outer PID namespace, so it could not notice the end of that process.
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.pid == 0) continue;
    // Refuse other users: the memory of an open file belongs to one user.
    if (who.uid != 0 && who.uid != ::geteuid()) continue;
    // Close surplus connections. If they stayed in the queue, they would keep the loop awake and all others waiting.
    if (connections_.size() >= kMostConnections || connections_of(who.pid) >= kMostOfOneProcess) continue;
    if (program_of(who.pid) == nullptr) continue;
    Connection& made = connections_.emplace_back();
    made.socket = std::make_shared<UniqueFd>(std::move(socket));
    made.pid = who.pid;
  }
}

std::size_t Broker::connections_of(pid_t pid) const {
  return static_cast<std::size_t>(
      std::count_if(connections_.begin(), connections_.end(), [pid](const Connection& c) { return c.pid == pid; }));
}

/// The pidfd keeps a process's number in use until the broker has noticed the process's end.
Program* Broker::program_of(pid_t pid) {
  const auto known = programs_.find(pid);
  if (known != programs_.end())
    return known->second.ended || ready(known->second.pidfd.get()) ? nullptr : &known->second;
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) return nullptr;
  Program& made = programs_[pid];
  made.pidfd = std::move(pidfd);
  made.owner = ++last_program_;
  return &made;
}

void Broker::collect() {
  for (Connection& connection : connections_) {
    if (connection.work == nullptr || !connection.work->finished()) continue;
    Work& work = *connection.work;
    HeldFile* const held = files_->find(connection.file);
    if (work.file != nullptr && held != nullptr && held->file == nullptr) held->file = std::move(work.file);
    // Either all descriptors are gone, or the broker already has the file open.
    if (work.file != nullptr) release({}, std::move(work.file));
    connection.work = nullptr;
    connection.file = {};
  }
  std::erase_if(releases_, [](const auto& entry) { return entry.second->finished(); });
}

void Broker::hear(Connection& connection) {
  while (!connection.lost) {
    auto packet = receive_packet(connection.socket->get(), false);
    if (packet) {
      active_ = process_.clock().now();
      take(connection, *std::move(packet));
      continue;
    }
    if (packet.code() == Errc::kTryAgain) return;
    connection.lost = true;
    if (connection.work != nullptr) connection.work->cancel();
  }
}

void Broker::take(Connection& connection, Packet packet) {
  auto request = wire::decode_body<BrokerRequest>(packet.body);
  if (!request || request->version != BrokerRequest::kVersion) return answer(connection, Errc::kVersionMismatch);
  if (connection.work != nullptr && connection.work->finished()) collect();
  if (request->word == BrokerOp::kCancel) {
    if (connection.work != nullptr) connection.work->cancel();
    return;
  }
  if (connection.work != nullptr) return answer(connection, Errc::kProtocol);
  if (request->word == BrokerOp::kSettle) {
    collect();
    files_->look_for_gone();
    release_what_ended();
    connection.settles = last_release_ + 1;
    return settle();
  }
  if (auto prepared = prepare(connection, *request, packet.descriptor.get()); !prepared)
    return answer(connection, prepared.code());
  begin(connection, *request);
}

/// Fills in the owner of the lock that the request names.
Result<void> Broker::prepare(Connection& connection, BrokerRequest& request, int memfd) {
  wire::LockSpec& lock = request.lock;
  Program* const program = program_of(connection.pid);
  if (program == nullptr) return Errc::kNoLocks;
  const bool whole = request.word == BrokerOp::kHold;
  const bool of_process = !whole && lock.kind == LockKind::kProcess;
  const bool sets = request.word == BrokerOp::kLock && lock.mode != LockMode::kNone;
  if (memfd >= 0) {
    SPATE_TRY(HeldFile* const held, files_->watch(memfd, lock.handle));
    connection.file = held->identity;
    if (!of_process) lock.owner = held->owner;
    if (sets && !of_process) held->locked = true;
    if (whole && held->file != nullptr) return Errc::kExists;
  } else if (whole || !of_process) {
    return Errc::kInvalidArgument;
  }
  if (of_process) lock.owner = program->owner;
  if (of_process && sets) program->locked.insert(lock.handle);
  const bool forgotten = request.incarnation != 0 && request.incarnation != incarnation_;
  return sets && forgotten ? Errc::kLostLock : Result<void>();
}

void Broker::answer(Connection& connection, Errc error) {
  BrokerReply reply;
  reply.error = error == Errc::kExists ? Errc::kOk : error;
  reply.incarnation = incarnation_;
  connection.file = {};
  if (!send_packet(connection.socket->get(), packet_of(reply), -1)) connection.lost = true;
}

void Broker::begin(Connection& connection, const BrokerRequest& request) {
  connection.work = std::make_unique<Work>(process_);
  Work* const work = connection.work.get();
  work->request = request;
  work->reply.incarnation = incarnation_;
  if (request.word == BrokerOp::kDrop) {
    Program& program = programs_.at(connection.pid);
    std::set<Handle> handles{request.lock.handle};
    if (!request.lock.handle) handles = program.locked;
    for (const Handle handle : handles) {
      if (program.locked.erase(handle) > 0) work->owners.push_back({handle, {LockKind::kProcess, program.owner}});
    }
  }
  work->begin([work, socket = connection.socket, wake = wake_.get()] {
    std::ignore = send_packet(socket->get(), packet_of(work->reply), -1);
    wake_up(wake);
  });
}

void Broker::look_for_ended() {
  for (auto& [pid, program] : programs_) {
    if (program.ended || !ready(program.pidfd.get())) continue;
    program.ended = true;
    for (Connection& connection : connections_) {
      if (connection.pid != pid) continue;
      connection.lost = true;  // a child of the process may have the socket, too
      if (connection.work != nullptr) connection.work->cancel();
    }
  }
}

bool Broker::in_use(const MemoryIdentity& file) const {
  return std::any_of(connections_.begin(), connections_.end(),
                     [&](const Connection& c) { return c.work != nullptr && c.file == file; });
}

bool Broker::at_work(pid_t pid) const {
  return std::any_of(connections_.begin(), connections_.end(),
                     [&](const Connection& c) { return c.work != nullptr && c.pid == pid; });
}

void Broker::release_what_ended() {
  auto& files = files_->all();
  for (auto entry = files.begin(); entry != files.end();) {
    HeldFile& held = entry->second;
    if (!held.gone || in_use(entry->first)) {
      ++entry;
      continue;
    }
    std::vector<Work::Owner> owners;
    if (held.locked)
      owners = {{held.handle, {LockKind::kFlock, held.owner}}, {held.handle, {LockKind::kOpenFile, held.owner}}};
    release(std::move(owners), std::move(held.file));
    entry = files.erase(entry);
  }
  for (auto entry = programs_.begin(); entry != programs_.end();) {
    Program& program = entry->second;
    const bool connected = std::any_of(connections_.begin(), connections_.end(),
                                       [&](const Connection& c) { return c.pid == entry->first; });
    const bool over = program.ended ? !at_work(entry->first) : !connected && program.locked.empty();
    if (!over) {
      ++entry;
      continue;
    }
    std::vector<Work::Owner> owners;
    for (const Handle handle : program.locked) owners.push_back({handle, {LockKind::kProcess, program.owner}});
    release(std::move(owners), nullptr);
    entry = programs_.erase(entry);
  }
}

void Broker::release(std::vector<Work::Owner> owners, std::unique_ptr<client::File> file) {
  if (owners.empty() && file == nullptr) return;
  auto& work = releases_[++last_release_] = std::make_unique<Work>(process_);
  work->request.word = BrokerOp::kDrop;
  work->owners = std::move(owners);
  work->file = std::move(file);
  active_ = process_.clock().now();
  work->begin([wake = wake_.get()] { wake_up(wake); });
}

void Broker::settle() {
  for (Connection& connection : connections_) {
    if (connection.settles == 0 || (!releases_.empty() && releases_.begin()->first < connection.settles)) continue;
    connection.settles = 0;
    answer(connection, Errc::kOk);
  }
}

}  // namespace spate::preload
