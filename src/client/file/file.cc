// SPDX-License-Identifier: Apache-2.0
#include "client/file/file.h"

#include <algorithm>
#include <numeric>

#include "client/session/handover_state.h"
#include "dist/registry.h"
#include "job/run_all.h"
#include "model/defect.h"
#include "wire/cluster_messages.h"

namespace spate::client {
namespace {

std::unique_ptr<const Distribution> distribution_of(const Layout& layout) {
  auto made = make_distribution(layout);
  SPATE_CHECK(made.has_value());  // the decoder has checked the layout
  return *std::move(made);
}

std::shared_ptr<FileGather> join_gathered(FileData& data) {
  auto gather = std::make_shared<FileGather>(data);
  data.cluster().gathered().join(data.handle(), gather);
  return gather;
}

/// The error of gathered writes is told instead of the loss that they are.
Result<void> told_with(const FileGather* gather, Result<void> lost) {
  if (gather == nullptr || !gather->failed()) return lost;
  return *gather->failed();
}

}  // namespace

File::File(Cluster& cluster, wire::OpenReply reply, std::uint8_t open_flags)
    : cluster_(cluster),
      handle_(reply.object.attributes.handle),
      layout_(std::move(*reply.object.layout)),
      attributes_(reply.object.attributes),
      distribution_(distribution_of(layout_)),
      capability_(cluster, layout_, {handle_, open_flags, reply.capability}),
      written_(cluster, {handle_, layout_, reply.created, reply.truncated}),
      data_(cluster, {handle_, layout_, *distribution_, attributes_, capability_, written_}),
      append_(data_),
      meta_record_(cluster, handle_, capability_) {
  const bool may_gather = cluster.gathered().memory() != nullptr && allows(capability_.rights(), Rights::kWrite);
  // From the create on, the meta server may count on this client's answer to a recall.
  if (may_gather && written_.made_file()) gather_ = join_gathered(data_);
}

File::~File() {
  if (gather_ != nullptr) gather_->leave();
}

job::Task<void> File::take_over(GatherMemory::Piece& piece) {
  if (gather_ == nullptr) gather_ = join_gathered(data_);
  co_await gather_->take_over(piece);
}

void File::keep_in(HandoverState::Open& record) {
  written_.keep_in(record);
  record.reads_count = data_.reads_count();
  if (capability_.by_user()) record.open_flags |= wire::kOpenByUser;
}

void File::inherit(HandoverState::Open& record) {
  if (!record.reads_count) data_.forget_reads();
  if (record.close_atime) data_.note_read(*record.close_atime);
  if (allows(capability_.rights(), Rights::kWrite)) {
    written_.inherit(record);
  } else {
    written_.keep_in(record);
  }
}

job::Task<void> File::hand_over(Limits limits) { co_await data_.bypass().give_back(limits); }

job::Task<Result<std::uint64_t>> File::copy_from(File& source, CopySpan span) {
  co_await cluster_.gathered().send(source.handle_);
  co_await cluster_.gathered().send(handle_);
  FileCopy copy(source.data_, data_, append_);
  auto copied = co_await copy.run(span);
  co_return copied;
}

job::Task<Result<std::vector<SlotPath>>> File::explain(std::uint64_t offset, std::uint64_t size, bool is_write) {
  SPATE_CO_TRY(const auto what, datatype::Description::contiguous(offset, size));
  const Capability capability = capability_.now();
  auto answers = co_await client::explain(data_.target(capability), what, is_write, cluster_.session().limits());
  co_return answers;
}

job::Task<Result<void>> File::truncate(std::uint64_t size) {
  if (!allows(capability_.rights(), Rights::kWrite)) co_return Errc::kInvalidArgument;  // as ftruncate
  wire::TruncateRequest request;
  request.where.start = handle_;
  request.by_open_file = true;
  request.size = size;
  Limits limits = cluster_.session().limits();
  limits.data_of = handle_;
  co_await cluster_.gathered().send(handle_);
  if (HandoverState* const handover = cluster_.session().handover()) handover->forget_unasked(handle_);
  Result<wire::TruncateReply> reply = Errc::kBadDescriptor;
  for (int tries = 1; tries <= kMostRenewals && is_unknown_open(reply.code()); ++tries) {
    SPATE_CO_TRY(std::ignore, co_await capability_.make_current(limits));
    reply = co_await cluster_.change(request, limits);
    if (capability_.in_current_epoch()) break;  // otherwise it is not open in the session that has refused
  }
  if (!reply) {
    written_.note_uncertain();
    co_return meta_record_.told(std::move(reply).error());
  }
  written_.note_truncated();
  co_return Result<void>();
}

job::Task<Result<Attributes>> File::stat() {
  wire::GetattrRequest request;
  request.handle = handle_;
  const Limits limits = cluster_.session().limits();
  SPATE_CO_TRY(auto reply, co_await cluster_.session().ask(request, limits));
  auto complete = co_await complete_attributes(cluster_, reply.attributes, layout_, limits);
  const auto read_at = data_.read_at();
  if (complete && read_at) complete->atime = std::max(complete->atime, *read_at);  // the close reports it
  co_return complete;
}

job::Task<Result<void>> File::sync() {
  const std::uint64_t told_before = written_.losses_told();
  co_await cluster_.gathered().send(handle_);
  SPATE_CO_TRY(const auto turn, co_await written_.unsynced().turn.acquire(1));
  const Limits limits = cluster_.session().limits();
  // Neither depends on the other: an fsync takes one round trip, not two.
  std::vector<job::Task<Result<void>>> syncs;
  syncs.push_back(meta_record_.sync(limits));
  syncs.push_back(sync_datafiles(limits));
  SPATE_CO_TRY(std::ignore, co_await job::run_all(cluster_.executor(), std::move(syncs)));
  auto told = told_with(gather_.get(), written_.tell_losses(told_before));
  if (gather_ != nullptr) gather_->told();
  written_.keep_synced();
  co_return told;
}

job::Task<Result<void>> File::sync_datafiles(Limits limits) {
  const std::vector<std::uint32_t> dirty = written_.unsynced().take_dirty();
  if (dirty.empty()) co_return Result<void>();
  auto synced = co_await data_.ask_slots(dirty, true, limits);
  if (!synced) {
    written_.unsynced().put_back(dirty);
    co_return std::move(synced).error();
  }
  written_.unsynced().synced(*synced);
  co_return Result<void>();
}

/// Reports losses that this client knows of. Unlike sync(), this asks no server: POSIX promises nothing more for a
/// close. The error of gathered writes stays until a sync has told it: many a descriptor is closed by a program that
/// does not look, such as one that a child process has inherited.
Result<void> File::check_lost() {
  const std::uint64_t told_before = written_.losses_told();
  written_.unsynced().check_heard([this](std::uint32_t slot) {
    const TargetId target = layout_.slots[slot].targets.front();
    if (is_group(target)) return cluster_.session().servers().groups().loss(target);
    const auto channel = cluster_.session().servers().io_channel(target);
    // None: this process has had no answer from the server yet.
    return channel ? (*channel)->incarnation() : Incarnation();
  });
  return told_with(gather_.get(), written_.tell_losses(told_before));
}

job::Task<Result<void>> File::check_lost_file() {
  constexpr Duration kSoon = std::chrono::seconds(1);
  Limits limits = cluster_.session().limits();
  limits.deadline = std::min(limits.deadline, cluster_.executor().now() + kSoon);
  auto there = co_await meta_record_.check(limits);
  co_return there.code() == Errc::kLostWrite ? there : check_lost();
}

job::Task<Result<std::uint64_t>> File::change_sum_now() {
  SPATE_CO_TRY(const std::vector<SlotState> states, co_await data_.ask_soon(data_.all_slots()));
  co_return summarize(*distribution_, states).change_sum;
}

job::Task<std::optional<wire::DataSummary>> File::written() {
  co_await data_.bypass().give_back(cluster_.session().limits());
  const bool learned = co_await data_.learn(1);
  co_return learned ? written_.summary(*distribution_) : std::nullopt;
}

job::Task<void> File::leave_open() {
  co_await append_.leave();
  written_.leave(false);
}

void File::keep_when_closed(std::uint8_t open_flags) {
  if (CachedOpens::can_be_kept(open_flags)) kept_flags_ = open_flags;
}

/// Tries to keep the open instead of sending a close that would report nothing, or to queue the close in a delegated
/// directory. Returns the attributes afterwards. Nothing: the close must be sent.
std::optional<Attributes> File::close_locally(const wire::CloseRequest& request, std::uint64_t request_id,
                                              UniqueFunction<void()>& on_ended) {
  if (kept_flags_ != 0 && !request.atime && !request.mtime && !request.mode) {
    CachedOpens::CachedOpen open{
        handle_,    kept_flags_,        attributes_.version, capability_.now(), meta_record_.incarnation(),
        request_id, std::move(on_ended)};
    if (cluster_.cached_opens().keep(open)) return attributes_;
    on_ended = std::move(open.on_ended);
  }
  QueuedChanges& queued = cluster_.queued();
  if (!queued.on() || !capability_.in_current_epoch()) return std::nullopt;
  auto closed = queued.answers().close(request, request_id);
  if (closed && on_ended) on_ended();  // the queue tells the next process of the close
  return closed;
}

job::Task<Result<Attributes>> File::close(CloseOptions options, UniqueFunction<void()> on_ended) {
  const Limits limits = cluster_.session().limits();
  co_await cluster_.gathered().send(handle_);
  co_await data_.bypass().give_back(limits);
  std::uint32_t writers = options.last_of_writers ? options.last_of_writers() : 1;
  if (writers > 1 && (cluster_.session().meta().features() & wire::kFeatureCloses) == 0) writers = 0;
  bool learned = false;
  if (options.learn_data && writers > 0) learned = co_await data_.learn(writers);
  if (writers > 1 && !learned && !planted(Defect::kPartAsSize)) writers = 0;  // this open knows only its own part
  const Result<void> lost = options.unheard ? Result<void>() : check_lost();  // before summary(), which it may end
  wire::CloseRequest request;
  request.handle = handle_;
  request.rights = capability_.rights();
  if (data_.may_be_known() && writers > 0) request.data = written_.summary(*distribution_);
  request.atime = options.atime;
  request.mtime = options.mtime;
  request.mode = options.mode;
  co_await append_.leave();
  // As late as possible: whoever sets atime meanwhile ends what was read (ReadTimes).
  if (!options.atime && !options.mtime && !options.mode) request.atime = data_.read_at();
  if (capability_.uncounted()) {
    if (!lost) co_return lost.error();
    co_return attributes_;
  }
  const rpc::SessionEpoch opened_in = capability_.epoch();
  written_.keep_close(request, limits.request_id);
  if (const auto closed = writers > 1 ? std::nullopt : close_locally(request, limits.request_id, on_ended)) {
    written_.leave(false);
    if (!lost) co_return lost.error();
    co_return *closed;
  }
  wire::CloseWritersRequest close{std::move(request), std::max(writers, 1U)};
  auto reply = co_await cluster_.close(std::move(close), opened_in, limits, std::move(on_ended));
  written_.leave(reply && reply->attributes.link_count == 0);
  if (!lost) co_return lost.error();  // reported even if something else failed, because no later call reports it
  if (reply) co_return reply->attributes;
  // A crash of the meta server's machine may take an open for reading. Nothing else is lost with it.
  const bool reader = !allows(capability_.rights(), Rights::kWrite);
  if (reader && reply.code() == Errc::kBadDescriptor && capability_.in_current_epoch()) co_return attributes_;
  co_return meta_record_.told(std::move(reply).error());
}

job::Task<Result<Attributes>> complete_attributes(Cluster& cluster, Attributes attributes, const Layout& layout,
                                                  Limits limits) {
  if (attributes.type != FileType::kRegular || attributes.size_known) co_return attributes;
  auto kept = cluster.attributes().find_attributes({attributes.handle, {}, 0});
  if (kept && *kept) co_return *std::move(kept);  // only this client has written the file
  if (cluster.gathered().has(attributes.handle)) {
    co_await cluster.gathered().send(attributes.handle);
    kept = cluster.attributes().find_attributes({attributes.handle, {}, 0});
    if (kept && *kept) co_return *std::move(kept);
  }
  SPATE_CO_TRY(auto distribution, make_distribution(layout));
  const Capability none;
  const TransferTarget target{cluster.session(), cluster.attributes(), attributes.handle, layout, *distribution, none};
  std::vector<std::uint32_t> slots(layout.slots.size());
  std::iota(slots.begin(), slots.end(), 0U);
  auto states = co_await ask_datafiles(target, slots, false, limits);
  if (states.code() == Errc::kPermissionDenied) {  // our key is for one directory: the meta server asks them
    wire::GetattrRequest request;
    request.handle = attributes.handle;
    SPATE_CO_TRY(const auto reply, co_await cluster.session().ask(request, limits));
    if (!reply.attributes.size_known)
      co_return Error(Errc::kUnreachable, "the meta server cannot ask the io servers for the file's size");
    co_return reply.attributes;
  }
  if (!states) co_return std::move(states).error();
  complete(attributes, summarize(*distribution, *states));
  co_return attributes;
}

}  // namespace spate::client
