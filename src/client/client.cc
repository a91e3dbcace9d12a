// SPDX-License-Identifier: Apache-2.0
#include "client/client.h"

#include <algorithm>

#include "wire/cluster_messages.h"

namespace spate::client {
namespace {

/// Room for one page of a directory, bytes.
constexpr std::uint32_t kReaddirRoom = 256 * 1024;
/// Room for an object and all steps of the path to it, bytes.
constexpr std::uint32_t kLookupRoom = 48 * 1024;

void forget_appends_before_cut(Session& session, const NamePath& where) {
  if (session.handover() != nullptr && where.path.empty()) session.handover()->forget_unasked(where.start);
}

job::Task<Result<std::unique_ptr<File>>> opened(Cluster& cluster, Result<wire::OpenReply> reply,
                                                std::uint8_t open_flags) {
  if (!reply) co_return std::move(reply).error();
  if (!reply->object.layout) {
    co_return reply->object.attributes.type == FileType::kDirectory ? Errc::kIsDirectory : Errc::kNotSupported;
  }
  co_return std::make_unique<File>(cluster, *std::move(reply), open_flags);
}

std::optional<Result<Attributes>> make_locally(Cluster& cluster, FileType type, const NamePath& where,
                                               const wire::NewAttributes& attributes, std::string target = {},
                                               std::uint8_t open_flags = 0) {
  if (!cluster.queued().on()) return std::nullopt;
  return cluster.queued().make({where, type, attributes, std::move(target), open_flags}, 0);
}

}  // namespace

NamePath path_from_root(std::string path, bool follow_last) {
  NamePath where;
  where.path = std::move(path);
  where.flags = NamePath::kRootedLinks;
  if (follow_last) where.flags |= NamePath::kFollowLast;
  return where;
}

Client::Client(Options options, job::NetworkContext& network, Random& random)
    : cluster_(std::move(options), network, random), queued_files_(cluster_) {}

job::Task<Result<void>> Client::connect() {
  auto open = co_await session().ensure_open(session().limits());
  co_return open;
}

job::Task<void> Client::stop() {
  Limits limits = session().limits();
  limits.deadline = std::min(limits.deadline, cluster_.executor().now() + std::chrono::seconds(1));
  co_await cluster_.stop(limits);
}

/// A change of the object must come after the writes that this client has acknowledged before.
job::Task<void> Client::send_gathered(const NamePath& where) {
  GatheredWrites& gathered = cluster_.gathered();
  if (!gathered.any()) co_return;
  Handle object = where.start;
  if (!where.path.empty()) {
    const auto known = cluster_.attributes().find(where);
    if (known.has_value() && known->code() == Errc::kNotFound) co_return;
    if (!known || !*known) {
      co_await gathered.send_all();
      co_return;
    }
    object = (*known)->attributes.handle;
  }
  co_await gathered.send(object);
}

template <typename Request>
job::Task<Result<void>> Client::change(const Request& request, Limits limits) {
  SPATE_CO_TRY(std::ignore, co_await cluster_.change(request, limits));
  co_return Result<void>();
}

template <typename Request>
job::Task<Result<Attributes>> Client::change_object(const Request& request, Limits limits) {
  SPATE_CO_TRY(auto reply, co_await cluster_.change(request, limits));
  co_return std::move(reply.attributes);
}

job::Task<Result<wire::ObjectReply>> Client::access(NamePath where, std::uint8_t want) {
  wire::AccessRequest request;
  request.where = std::move(where);
  request.want = want;
  auto reply = co_await session().ask(request, session().limits());
  co_return reply;
}

job::Task<Result<wire::ObjectReply>> Client::lookup_and_keep(NamePath where) {
  AttributeCache& cache = cluster_.attributes();
  wire::LookupLeaseRequest request;
  request.where = std::move(where);
  const AttributeCache::Lookup lookup = cache.begin_lookup();
  auto reply = co_await session().ask(request, session().limits(), kLookupRoom);
  cache.end_lookup(lookup, reply ? &*reply : nullptr);
  if (!reply) co_return std::move(reply).error();
  if (reply->granted) cluster_.events().start();
  if (!reply->object) co_return Errc::kNotFound;
  co_return *std::move(reply->object);
}

job::Task<Result<wire::ObjectReply>> Client::lookup(NamePath where) {
  if (cluster_.attributes().on()) {
    auto kept = cluster_.attributes().find(where);
    if (kept) co_return *std::move(kept);
    SPATE_CO_TRY(std::ignore, co_await session().ensure_open(session().limits()));
    if ((session().meta().features() & wire::kFeatureLeases) != 0) {
      auto found = co_await lookup_and_keep(std::move(where));
      co_return found;
    }
  }
  auto reply = co_await look_again(std::move(where), session().limits());
  co_return reply;
}

job::Task<Result<wire::ObjectReply>> Client::look_again(NamePath where, Limits limits) {
  wire::LookupRequest request;
  request.where = std::move(where);
  auto reply = co_await session().ask(request, limits);
  co_return reply;
}

job::Task<Result<wire::ObjectReply>> Client::stat(NamePath where) {
  const Limits limits = session().limits();
  auto reply = co_await lookup(where);
  Handle removed;
  while (reply && !reply->attributes.size_known && reply->layout) {
    auto complete = co_await complete_attributes(cluster_, reply->attributes, *reply->layout, limits);
    if (complete) {
      reply->attributes = *complete;
      break;
    }
    // The object was removed after the name was looked up. The name may lead to another object now.
    const bool again = complete.code() == Errc::kStaleHandle && reply->attributes.handle != removed;
    if (!again) co_return std::move(complete).error();
    removed = reply->attributes.handle;
    reply = co_await look_again(where, limits);
  }
  co_return reply;
}

job::Task<Result<Attributes>> Client::setattr(wire::SetattrRequest request) {
  const Limits limits = session().limits();
  if (auto set = cluster_.queued().set(request, 0)) co_return cluster_.reads().answered(request, *std::move(set));
  co_await send_gathered(request.where);
  if (request.mtime || request.mtime_now) {
    SPATE_CO_TRY(auto found, co_await stat(request.where));
    const Attributes& now = found.attributes;
    if (!now.size_known && found.layout) {
      request.data = wire::DataSummary{now.size, now.allocated_bytes, now.mtime, now.change_sum};
    }
  }
  SPATE_CO_TRY(auto reply, co_await cluster_.change(request, limits));
  std::ignore = cluster_.reads().answered(request, reply.attributes);
  if (!reply.layout) co_return reply.attributes;
  auto complete = co_await complete_attributes(cluster_, reply.attributes, *reply.layout, limits);
  if (complete.code() == Errc::kStaleHandle) co_return reply.attributes;  // changed, and removed since
  co_return complete;
}

job::Task<Result<std::unique_ptr<File>>> Client::open(NamePath where, std::uint8_t open_flags) {
  if (!wire::fit_open(open_flags)) co_return Error(Errc::kInvalidArgument, "flags of an open");
  wire::OpenRequest request;
  request.where = std::move(where);
  request.open_flags = open_flags;
  const Limits limits = session().limits();
  if (request.where.path.empty()) co_await queued_files_.send(request.where.start);
  co_await send_gathered(request.where);
  if ((open_flags & wire::kOpenTruncate) != 0) forget_appends_before_cut(session(), request.where);
  Result<wire::OpenReply> reply = Errc::kUnknown;
  if (auto kept = cluster_.cached_opens().take(request.where, open_flags)) {
    reply = *std::move(kept);
  } else {
    reply = co_await ask_to_open(cluster_, request, limits);
  }
  auto file = co_await opened(cluster_, std::move(reply), request.open_flags);
  if (file) (*file)->keep_when_closed(request.open_flags);
  co_return file;
}

/// An open that is known later counts once the server has it with the queue, and the close ends that one. So this does
/// not wait for the queue, unless the mode has changed since.
job::Task<Result<std::unique_ptr<File>>> Client::open_again(HandoverState::Open& record, bool known_later) {
  wire::OpenRequest request;
  request.where.start = record.handle;
  request.open_flags = wire::kOpenRead | wire::kOpenUncounted;
  const Limits limits = session().limits();
  Result<wire::OpenReply> reply = Errc::kPermissionDenied;
  if (known_later) reply = co_await ask_to_open(cluster_, request, limits);
  request.open_flags = record.open_flags & (wire::kOpenRead | wire::kOpenWrite | wire::kOpenByUser);
  request.renew = true;
  if (reply.code() == Errc::kPermissionDenied) reply = co_await ask_to_open(cluster_, request, limits);
  auto file = co_await opened(cluster_, std::move(reply), request.open_flags);
  if (file) (*file)->inherit(record);
  co_return file;
}

job::Task<Result<void>> Client::close_inherited(const HandoverState::Open& record, UniqueFunction<void()> on_ended) {
  wire::CloseRequest request;
  request.handle = record.handle;
  request.rights = rights_of(record.open_flags);
  if (record.closing) request.data = record.close_data;
  request.atime = record.close_atime;
  const Limits limits = session().limits();
  SPATE_CO_TRY(std::ignore, co_await session().ensure_open(limits));
  const rpc::SessionEpoch epoch = session().identity().session();
  wire::CloseWritersRequest one{std::move(request), 1};
  SPATE_CO_TRY(std::ignore, co_await cluster_.close(std::move(one), epoch, limits, std::move(on_ended)));
  co_return Result<void>();
}

job::Task<Result<std::unique_ptr<File>>> Client::create(NamePath where, std::uint8_t open_flags, NewObject object) {
  wire::CreateRequest request;
  request.where = std::move(where);
  request.attributes = std::move(object.attributes);
  request.layout = std::move(object.layout);
  request.open_flags = open_flags;
  if (request.layout.distribution) request.open_flags |= wire::kOpenDistribution;
  if (!wire::fit_create(request.open_flags)) co_return Error(Errc::kInvalidArgument, "flags of a create");
  const Limits limits = session().limits();
  // In a create the server derives the owner itself. A later open must state the owner.
  const bool for_user =
      (request.attributes.mode & wire::NewAttributes::kOnBehalf) != 0 && request.attributes.uid.value_or(0) != 0;
  // Some bits of a create mean something else in an open (kOpenTemporary is kOpenUncounted there).
  const int opened_as = (open_flags & (wire::kOpenRead | wire::kOpenWrite)) | (for_user ? wire::kOpenByUser : 0);
  const std::uint8_t rights = open_flags & (wire::kOpenRead | wire::kOpenWrite);
  const bool plain = (request.open_flags & ~(rights | wire::kOpenExclusive | wire::kOpenTruncate)) == 0 && rights != 0;
  if (plain && !request.layout.strip_bytes && !request.layout.slot_count && !request.layout.first_target &&
      request.layout.targets.empty()) {
    const auto made = make_locally(cluster_, FileType::kRegular, request.where, request.attributes, {}, rights);
    if (made && *made) {
      auto file = co_await queued_files_.open((*made)->handle, static_cast<std::uint8_t>(opened_as));
      co_return file;
    }
  }
  if ((open_flags & wire::kOpenTruncate) != 0) co_await send_gathered(request.where);
  auto reply = co_await cluster_.change(request, limits);
  auto file = co_await opened(cluster_, std::move(reply), static_cast<std::uint8_t>(opened_as));
  co_return file;
}

job::Task<Result<Attributes>> Client::make_node(wire::CreateRequest request) {
  SPATE_CO_TRY(auto reply, co_await cluster_.change(request, session().limits()));
  co_return reply.object.attributes;
}

job::Task<Result<Attributes>> Client::mkdir(NamePath where, wire::NewAttributes attributes) {
  if (auto made = make_locally(cluster_, FileType::kDirectory, where, attributes)) co_return *std::move(made);
  wire::MkdirRequest request;
  request.where = std::move(where);
  request.attributes = std::move(attributes);
  auto made = co_await change_object(request, session().limits());
  co_return made;
}

job::Task<Result<Attributes>> Client::symlink(NamePath where, std::string target, wire::NewAttributes attributes) {
  if (auto made = make_locally(cluster_, FileType::kSymlink, where, attributes, target)) co_return *std::move(made);
  wire::SymlinkRequest request;
  request.where = std::move(where);
  request.target = std::move(target);
  request.attributes = std::move(attributes);
  auto made = co_await change_object(request, session().limits());
  co_return made;
}

job::Task<Result<Attributes>> Client::link(NamePath existing, NamePath where) {
  wire::LinkRequest request;
  request.existing = std::move(existing);
  request.where = std::move(where);
  const Limits limits = session().limits();
  co_await send_gathered(request.existing);
  auto made = co_await change_object(request, limits);
  co_return made;
}

job::Task<Result<void>> Client::unlink(NamePath where) {
  wire::UnlinkRequest request;
  request.where = std::move(where);
  const Limits limits = session().limits();
  if (auto removed = cluster_.queued().answers().remove(request.where, wire::Op::kUnlink, 0))
    co_return *std::move(removed);
  co_await send_gathered(request.where);
  auto done = co_await change(request, limits);
  co_return done;
}

job::Task<Result<void>> Client::rmdir(NamePath where) {
  wire::RmdirRequest request;
  request.where = std::move(where);
  if (auto removed = cluster_.queued().answers().remove(request.where, wire::Op::kRmdir, 0))
    co_return *std::move(removed);
  auto done = co_await change(request, session().limits());
  co_return done;
}

job::Task<Result<void>> Client::rename(NamePath from, NamePath to, std::uint8_t flags) {
  wire::RenameRequest request;
  request.from = std::move(from);
  request.to = std::move(to);
  request.flags = flags;
  const Limits limits = session().limits();
  co_await send_gathered(request.from);
  co_await send_gathered(request.to);
  auto done = co_await change(request, limits);
  co_return done;
}

job::Task<Result<void>> Client::truncate(NamePath where, std::uint64_t size) {
  wire::TruncateRequest request;
  request.where = std::move(where);
  request.size = size;
  const Limits limits = session().limits();
  co_await send_gathered(request.where);
  forget_appends_before_cut(session(), request.where);
  SPATE_CO_TRY(auto reply, co_await cluster_.change(request, limits));
  if (reply.layout) {
    const auto slots = static_cast<std::uint32_t>(reply.layout->slots.size());
    cluster_.unsynced().note_cut(reply.attributes.handle, slots);
  }
  co_return Result<void>();
}

job::Task<Result<bool>> Client::lists_with_leases(Handle directory) {
  if (!cluster_.attributes().worth_listing(directory)) co_return false;
  SPATE_CO_TRY(std::ignore, co_await session().ensure_open(session().limits()));
  co_return (session().meta().features() & wire::kFeatureLists) != 0;
}

job::Task<Result<wire::ReaddirReply>> Client::list_and_keep(const wire::ReaddirRequest& request) {
  AttributeCache& cache = cluster_.attributes();
  wire::ListLeaseRequest list;
  list.handle = request.handle;
  list.cookie = request.cookie;
  list.max_entries = request.max_entries;
  const AttributeCache::Lookup lookup = cache.begin_lookup();
  auto reply = co_await session().ask(list, session().limits(), kReaddirRoom);
  cache.end_listing(lookup, request.handle, reply ? &*reply : nullptr);
  if (!reply) co_return std::move(reply).error();
  if (reply->granted) cluster_.events().start();
  co_return std::move(reply->page);
}

job::Task<Result<wire::ReaddirReply>> Client::page_of(const wire::ReaddirRequest& request) {
  SPATE_CO_TRY(const bool leases, co_await lists_with_leases(request.handle));
  if (leases) {
    auto kept = co_await list_and_keep(request);
    co_return kept;
  }
  auto reply = co_await session().ask(request, session().limits(), kReaddirRoom);
  co_return reply;
}

job::Task<Result<wire::ReaddirReply>> Client::readdir(wire::ReaddirRequest request) {
  const Limits limits = session().limits();
  auto reply = co_await page_of(request);
  if (!reply || !request.attributes) co_return reply;
  for (wire::DirectoryEntry& entry : reply->entries) {
    if (!entry.attributes || entry.attributes->size_known || !entry.layout) continue;
    auto complete = co_await complete_attributes(cluster_, *entry.attributes, *entry.layout, limits);
    // A listing continues when a server is down or a file has been removed. The entry then keeps the meta server's
    // values for the file.
    if (complete) entry.attributes = *complete;
  }
  co_return reply;
}

job::Task<Result<SpaceUse>> Client::statfs() {
  const Limits limits = session().limits();
  auto use = co_await client::space_use(session(), limits, limits);
  if (!use) co_return use;
  for (const SpaceUse::Server& server : use->servers) {
    if (!server.answered) co_return server.answered.error();
  }
  co_return use;
}

job::Task<Result<SpaceUse>> Client::space_of_those_there(Duration timeout) {
  const Limits limits = session().limits();
  Limits of_io_servers = limits;
  of_io_servers.deadline = std::min(limits.deadline, cluster_.executor().now() + timeout);
  auto use = co_await client::space_use(session(), limits, of_io_servers);
  co_return use;
}

job::Task<Result<void>> Client::sync() {
  const wire::MetaSyncRequest request;
  SPATE_CO_TRY(std::ignore, co_await session().ask(request, session().limits()));
  co_return Result<void>();
}

}  // namespace spate::client
