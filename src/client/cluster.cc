// SPDX-License-Identifier: Apache-2.0
#include "client/cluster.h"

#include "client/attributes/copies.h"
#include "job/deadline.h"
#include "job/event.h"

namespace spate::client {
namespace {

/// Whether the code is an answer about names, so that nothing was changed. (A close may have taken effect even so.)
bool without_effect(wire::Op op, Errc code) {
  const auto number = static_cast<unsigned>(code);
  const bool of_names =
      (number >= static_cast<unsigned>(Errc::kNotFound) && number < static_cast<unsigned>(Errc::kNoSpace)) ||
      code == Errc::kInvalidArgument || code == Errc::kNotSupported;
  return of_names && op != wire::Op::kClose && op != wire::Op::kCloseWriters;
}

/// Whether the request may still be under way, or was never answered.
bool may_be_under_way(Errc code) {
  return code == Errc::kTimeout || code == Errc::kUnreachable || code == Errc::kConnectionLost ||
         code == Errc::kCancelled || code == Errc::kProtocol || code == Errc::kForgottenRequest;
}

constexpr Duration kInheritedLook = std::chrono::seconds(1);

}  // namespace

Cluster::Cluster(Options options, job::NetworkContext& network, Random& random)
    : session_(std::move(options), network, random),
      kernel_files_(executor()),
      attributes_({this->options().keep_attributes, this->options().most_kept, this->options().copies,
                   this->options().listings},
                  executor().clock()),
      queued_(session_, attributes_, this->options().queue),
      gathered_(session_, attributes_, this->options().gather),
      events_(session_, attributes_, gathered_, queued_),
      locks_(session_, events_),
      appends_(executor(), locks_, session_.handover()),
      unsynced_(executor()),
      cached_opens_(session_, attributes_,
                    [this](wire::CloseWritersRequest request, rpc::SessionEpoch opened_in, Limits limits,
                           UniqueFunction<void()> on_ended) {
                      return close(std::move(request), opened_in, limits, std::move(on_ended));
                    }),
      closes_(executor()) {
  session_.observe(*this);
  events_.on_lease_recall([this](Handle object) { cached_opens_.changed(object); });
  if (!session_.inherited()) return;
  events_.inherit();
  locks_.inherit();
  unsynced_.forget_some();
}

Cluster::~Cluster() = default;

job::Task<void> Cluster::stop(Limits limits) {
  std::ignore = co_await queued_.send_all(limits);
  co_await cached_opens_.stop(limits);
  gathered_.request_stop();
  queued_.request_stop();
  stopping_.request_stop();
  session_.request_stop();
  events_.request_stop();
  attributes_.clear();
  co_await locks_.stop();
  co_await gathered_.stop();
  co_await queued_.stop();
  co_await events_.stop();
  co_await appends_.stop();
  co_await session_.stop(limits);
  co_await closes_.close();
}

void Cluster::session_changed() {
  events_.check_session();
  queued_.session_changed();
  if (queued_.on()) events_.start();
}

void Cluster::heard() {
  queued_.heard();
  events_.heard();
}

/// A change that was answered is seen by every later request of this client. The requests that are left out have
/// nothing to do with names, or belong to the sending itself.
bool Cluster::must_follow(wire::Op op, ByteView body) {
  if (!queued_.any()) return false;
  switch (op) {
    case wire::Op::kQueuedChanges:
    case wire::Op::kReserveHandles:
    case wire::Op::kSessionEvents:
    case wire::Op::kClusterMap:
    case wire::Op::kDataGroups: return false;
    case wire::Op::kClose:
    case wire::Op::kCloseWriters: {
      // Both begin with the file's handle.
      wire::Reader reader(body);
      Handle file;
      reader(file);
      return queued_.log().has(file);
    }
    case wire::Op::kOpen: {
      // Its begin as well. Data that wait for the file's creation need the open; other opens have sent them before. The
      // server has made a file whose open it learns of later (Client::open_again()).
      wire::Reader reader(body);
      wire::NamePath where;
      std::uint8_t open_flags = 0;
      reader(where, open_flags);
      if (where.path.empty() && (open_flags & wire::kOpenUncounted) != 0) return false;
      return !(where.path.empty() && queued_.held().has(where.start));
    }
    case wire::Op::kGetxattr:
    case wire::Op::kListxattr: {
      // Both begin with the object, of which nothing else tells them anything.
      wire::Reader reader(body);
      wire::NamePath where;
      reader(where);
      return !where.path.empty() || queued_.log().changes(where.start) || queued_.held().has(where.start);
    }
    default: return true;
  }
}

job::Task<Result<void>> Cluster::send_queued(Limits limits) {
  auto sent = co_await queued_.send_all(limits);
  co_return sent;
}

job::Task<void> Cluster::end_inheritance() {
  events_.listen_for_inherited_leases();
  co_await locks_.end_inherited_waits();
  // The front end sends them before it repeats calls of the earlier process.
  bool sent = false;
  while (!sent && !stopping_.stopped()) sent = co_await gathered_.none_inherited(kInheritedLook);
}

/// The cache must not keep attributes that are older than a change that was answered, to this client or to another.
job::Task<Result<rpc::RawReply>> Cluster::change_meta(wire::Op op, ByteView body, Limits limits,
                                                      const ChangePlan& plan) {
  if (!attributes_.on()) {
    SPATE_CO_TRY(ChangeReply reply, co_await session_.send_change(op, body, limits));
    co_return std::move(reply.raw);
  }
  OwnChange change(attributes_, plan);
  // Other clients may see the change before its answer has come.
  auto dropped = co_await copies_dropped(options().copies, executor(), limits.stop);
  if (!dropped) {
    change.end_without_effect();
    co_return std::move(dropped).error();
  }
  auto reply = co_await session_.send_change(op, body, limits);
  if (!reply) {
    // If the change takes effect later, the server must not believe that this client knows of it. A new handshake
    // prevents that.
    if (may_be_under_way(reply.code())) session_.meta().repeat_handshake();
    if (without_effect(op, reply.code())) change.end_without_effect();
    co_return std::move(reply).error();
  }
  if (reply->lists == nullptr) co_return std::move(reply->raw);
  const auto& [touched, granted] = *reply->lists;
  OpenedFile opened;
  if (plan.data == ChangePlan::Data::kOpened) {
    const auto created = wire::decode_body<wire::CreateReply>(reply->raw.body);
    if (created) opened = {created->object.attributes.handle, created->created};
  }
  change.end(touched, granted, opened);
  for (const wire::GrantedObject& object : granted.objects) {
    if ((object.flags & wire::GrantedObject::kDelegated) != 0) queued_.delegated(object.object.attributes.handle);
  }
  for (const Handle object : touched.objects) cached_opens_.changed(object);
  if (granted.granted) events_.start();
  SPATE_CO_TRY(std::ignore, co_await copies_dropped(options().copies, executor(), {}));
  co_return std::move(reply->raw);
}

// The rest of close(). It continues after the caller of close() has stopped waiting.

struct Cluster::Closing {
  explicit Closing(job::Executor& executor) : ended(executor) {}
  Result<wire::CloseReply> reply = Errc::kUnknown;
  UniqueFunction<void()> on_ended;
  job::Event ended;
};

/// The request keeps one id until the end. With a new id it could end another open of the file.
job::Task<void> Cluster::close_for_sure(wire::CloseWritersRequest request, Limits limits,
                                        std::shared_ptr<Closing> closing) {
  if (request.opens > 1) {
    closing->reply = co_await change(request, limits);
  } else {
    closing->reply = co_await change(request.close, limits);
  }
  if (closing->on_ended && closing->reply.code() != Errc::kCancelled) closing->on_ended();
  closing->ended.set();
}

job::Task<Result<wire::CloseReply>> Cluster::close(wire::CloseWritersRequest request, rpc::SessionEpoch opened_in,
                                                   Limits limits, UniqueFunction<void()> on_ended) {
  // The task close_for_sure() shares this object, and may outlive this call.
  const auto closing = std::make_shared<Closing>(executor());
  closing->on_ended = std::move(on_ended);
  Limits for_sure = limits;
  for_sure.deadline = MonoTime::never();
  for_sure.stop = stopping_;
  for_sure.only_in = opened_in;
  auto close = close_for_sure(std::move(request), for_sure, closing);
  if (!job::spawn(closes_, std::move(close))) co_return Errc::kCancelled;
  job::DeadlineScope scope(executor(), limits.deadline, limits.stop);
  const auto waited = co_await closing->ended.wait(scope.token());
  if (!waited && closing->reply.code() == Errc::kUnknown) {
    if (waited.code() != Errc::kTimeout) co_return waited.error();
    co_return Error(Errc::kTimeout, session_.meta().name() + " has not answered a close yet");
  }
  co_return std::move(closing->reply);
}

}  // namespace spate::client
