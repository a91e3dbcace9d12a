// SPDX-License-Identifier: Apache-2.0
#include "fuse/server.h"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "assembly/locate.h"
#include "base/printable.h"
#include "config/load.h"
#include "fuse/control.h"
#include "fuse/gathering.h"
#include "fuse/kernel_session.h"
#include "fuse/queueing.h"
#include "fuse/readahead.h"
#include "fuse/unmount_watch.h"
#include "log/log.h"

namespace spate::fuse {
namespace {

/// How long the operations of a hard mount wait for a server. No machine runs that long without a restart.
constexpr Duration kForEver = std::chrono::hours(24) * 36500;

/// How long the end of a mount waits for servers that are away.
constexpr Duration kUnmountedGrace = std::chrono::seconds(5);

/// How long a drain waits for the changes that follow the data of the earlier process.
constexpr Duration kDrainTime = std::chrono::seconds(30);

Result<UniqueFd> block_signals() {
  sigset_t ends;
  sigemptyset(&ends);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, number);
  if (::pthread_sigmask(SIG_BLOCK, &ends, nullptr) != 0) return errno_error(errno, "block signals");
  UniqueFd signals(::signalfd(-1, &ends, SFD_CLOEXEC));
  if (!signals) return errno_error(errno, "signalfd");
  return signals;
}

/// Memory for gathered writes; null without the option.
Result<std::unique_ptr<client::GatherMemory>> gather_memory(const MountOptions& options, const UniqueFd& memory) {
  if (!memory || gather_pieces(options) == 0) return std::unique_ptr<client::GatherMemory>();
  return client::GatherMemory::open(memory.get(), gather_pieces(options));
}

/// Memory for queued changes; null without the option.
Result<std::unique_ptr<client::QueueMemory>> queue_memory(const MountOptions& options, const UniqueFd& memory) {
  if (!memory || !delegates(options)) return std::unique_ptr<client::QueueMemory>();
  return client::QueueMemory::open(memory.get());
}

/// The parts of a mount that its client uses and does not own.
struct Kept {
  client::HandoverState& handover;
  client::Copies* copies = nullptr;
  client::GatherMemory* gather = nullptr;
  client::QueueMemory* queue = nullptr;
};

Result<std::unique_ptr<assembly::ClientProcess>> open_client(const MountOptions& options, const Kept& kept) {
  assembly::ClientSettings settings;
  settings.config_file = options.config_file;
  settings.program = "mount";
  settings.credential = assembly::own_credential();
  settings.handover = &kept.handover;
  settings.gather = kept.gather;
  settings.queue = kept.queue;
  settings.may_keep_attributes = true;
  settings.listings = options.listings;
  settings.copies = kept.copies;
  if (!options.soft) settings.deadline = kForEver;
  settings.on_wait = [](const rpc::ServerWait& wait) {
    rpc::log_wait(wait);
    if (wait.state == rpc::ServerWait::State::kBegun)
      std::fprintf(stderr, "spate-mount: has waited for %s; Ctrl-C gives it up\n",
                   printable_lines(rpc::text_of(wait)).c_str());
  };
  SPATE_TRY(settings.overrides, config::overrides_from_environment(assembly::whole_environment()));
  const std::string leases = options.kernel_keeps_attributes ? "on" : options.leases;
  for (const auto& [key, value] :
       {std::pair("client.atime=", &options.atime), std::pair("client.attribute_cache=", &leases)}) {
    if (value->empty()) continue;
    SPATE_TRY(auto override, config::override_from_argument(key + *value));
    settings.overrides.push_back(std::move(override));
  }
  return assembly::ClientProcess::open(settings);
}

/// The first process asks for the mount once it has reached the servers. Later processes get /dev/fuse without asking.
Result<UniqueFd> wait_for_device(const Mount& mount, int control) {
  if (!mount.handover.inherited()) {
    SPATE_TRY(std::ignore, mount.process.run([](client::Client& c) { return c.connect(); }));
    SPATE_TRY(std::ignore, send_message(control, MessageKind::kConnected, mount_option_text(mount)));
  }
  SPATE_TRY(Message message, receive_message(control));
  if (message.word != MessageKind::kDevice || !message.descriptor)
    return Error::told(Errc::kConnectionLost, "the supervisor does not mount");
  return std::move(message.descriptor);
}

/// Gives the terminal back to the user who mounted.
void leave_terminal(const MountOptions& options) {
  if (options.foreground) return;
  ::setsid();
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null.get(), fd);
  std::ignore = ::chdir("/");
}

/// The mount has ended, and the servers do not answer.
void give_up_inherited(Mount& mount, const client::GatherMemory* gather) {
  if (gather != nullptr) lose_inherited(mount, *gather);
  lose_all_queued(mount);
  SPATE_LOG("fuse", warn, "ended while writes of the earlier process wait for a server");
  std::_Exit(0);  // everything that was acknowledged is on the servers, except what the log says
}

Result<void> run_server(const MountOptions& options, const ServerDescriptors& descriptors) {
  SPATE_TRY(const UniqueFd signals, block_signals());
  SPATE_TRY(const auto handover, client::HandoverState::open(descriptors.handover.get()));
  KernelCopies copies(*handover);
  KernelCopies* const kept_copies = options.kernel_keeps_attributes ? &copies : nullptr;
  const SystemClock clock;
  const bool keeps_names = options.kernel_keeps_names && delegates(options) && descriptors.queue;
  BriefCopies brief(clock, handover->inherited(), keeps_names);
  BriefCopies* const brief_copies = options.kernel_keeps_attributes ? nullptr : &brief;
  client::Copies* const used_copies =
      brief_copies != nullptr ? static_cast<client::Copies*>(brief_copies) : kept_copies;
  SPATE_TRY(const auto gather, gather_memory(options, descriptors.gather));
  SPATE_TRY(const auto queue, queue_memory(options, descriptors.queue));
  SPATE_TRY(const auto process, open_client(options, {*handover, used_copies, gather.get(), queue.get()}));
  const int control = descriptors.control.get();
  Mount mount{options,   *process,    process->client().cluster().options().credential,
              *handover, kept_copies, brief_copies};
  SPATE_TRY(UniqueFd device, wait_for_device(mount, control));
  SPATE_TRY(auto taken, take_device(mount, std::move(device)));
  // Before anything is sent: a recall is acknowledged when the copies of an earlier process are dropped.
  const int kernel = fuse_session_fd(taken.get());
  SPATE_TRY(std::ignore, kept_copies != nullptr ? kept_copies->begin(kernel) : brief_copies->begin(kernel));
  mount.read_only.emplace(options.read_only, device_of_mount(options.directory));
  // Without repeated calls a crash ends the mount, and with it what is gathered.
  mount.gathers = gather != nullptr && can_resend(mount);
  mount.delegates = queue != nullptr && can_resend(mount);
  if (queue != nullptr && !mount.delegates) end_queueing(mount);
  {
    const UnmountWatch watch(kernel, kUnmountedGrace, [&] { give_up_inherited(mount, gather.get()); });
    if (queue != nullptr) send_inherited_changes(mount);
    if (gather != nullptr) send_inherited(mount, *gather);
  }
  if (mount.gathers) name_gathered(mount);
  if (mount.delegates) name_queued(mount);
  // Not earlier: the answer to the kernel's first request sets the readahead.
  if (!handover->inherited()) ask_for_readahead(options.directory, options.readahead);
  KernelSession session(mount, std::move(taken));
  leave_terminal(options);
  SPATE_TRY(std::ignore, send_message(control, MessageKind::kServing, can_resend(mount) ? "resend" : ""));
  SPATE_TRY(const auto end, session.run(signals.get(), control));
  // The session and the locks belong to the next process now.
  if (end == KernelSession::End::kHandedOver) std::_Exit(kHandedOver);
  return {};
}

job::Task<Unit> resume_session(client::Client& client) {
  client.session().resume();
  co_return Unit();
}

Result<void> run_drain(const MountOptions& options, const ServerDescriptors& descriptors) {
  MountOptions impatient = options;
  impatient.soft = true;
  SPATE_TRY(const auto handover, client::HandoverState::open(descriptors.handover.get()));
  SPATE_TRY(const auto gather, gather_memory(options, descriptors.gather));
  SPATE_TRY(const auto queue, queue_memory(options, descriptors.queue));
  SPATE_TRY(const auto process, open_client(impatient, {*handover, nullptr, gather.get(), queue.get()}));
  Mount mount{impatient, *process, process->client().cluster().options().credential, *handover};
  process->run([](client::Client& c) { return resume_session(c); });
  if (queue != nullptr) send_inherited_changes(mount);
  if (gather != nullptr) send_inherited(mount, *gather);
  if (queue != nullptr) std::ignore = send_all_queued(mount, kDrainTime);
  return {};
}

}  // namespace

int drain(const MountOptions& options, ServerDescriptors descriptors) {
  const auto drained = run_drain(options, descriptors);
  if (drained) return 0;
  SPATE_LOG("fuse", error, "gathered writes cannot be drained directory={} error={}", options.directory,
            drained.error().message());
  return 1;
}

Result<ServerDescriptors> parse_server_descriptors(std::string_view text) {
  std::vector<UniqueFd> descriptors;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  do {
    int number = -1;
    const auto [next, error] = std::from_chars(at, end, number);
    struct stat state{};
    const bool there = error == std::errc() && number >= 3 && ::fstat(number, &state) == 0;
    if (there) descriptors.emplace_back(number);
    at = next == end ? end : next + 1;
    if (!there) descriptors.clear();
    if (!there) break;
  } while (at != end);
  if (descriptors.size() < 2) return Error::told(Errc::kInvalidArgument, "--serve is for the supervisor only");
  descriptors.resize(4);
  for (const UniqueFd& descriptor : descriptors) {
    if (descriptor) ::fcntl(descriptor.get(), F_SETFD, FD_CLOEXEC);
  }
  return ServerDescriptors{std::move(descriptors[0]), std::move(descriptors[1]), std::move(descriptors[2]),
                           std::move(descriptors[3])};
}

int serve(const MountOptions& options, ServerDescriptors descriptors) {
  const auto served = run_server(options, descriptors);
  if (served) return 0;
  SPATE_LOG("fuse", error, "the mount cannot be served directory={} error={}", options.directory,
            served.error().message());
  std::fprintf(stderr, "spate-mount: %s\n", printable_lines(served.error().message()).c_str());
  return 1;
}

}  // namespace spate::fuse
