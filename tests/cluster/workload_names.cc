// SPDX-License-Identifier: Apache-2.0
// The workload's operations on names, and its reports to the model.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "dist/registry.h"
#include "tests/cluster/workload.h"
#include "wire/xattr_messages.h"

namespace spate::cluster {
namespace {

client::NamePath where(const Scene& scene, const Path& path, bool follow) {
  return client::path_from_root(to_string(scene.names, path), follow);
}

Facts facts_of(const Attributes& a, std::string target) {
  Facts facts;
  facts.object = true;
  facts.handle = a.handle.value;
  facts.type = a.type;
  facts.mode = a.mode;
  facts.links = a.link_count;
  facts.entries = a.type == FileType::kDirectory ? static_cast<std::uint32_t>(a.size) : 0;
  facts.mtime = a.mtime.ns;
  facts.target = std::move(target);
  return facts;
}

Facts failed(Errc code) {
  Facts facts;
  facts.code = code;
  return facts;
}

Facts facts_of(const Result<Attributes>& result) { return result ? facts_of(*result, {}) : failed(result.code()); }

}  // namespace

/// Makes a change without effect, which uses the answer slot of the change that was given up. Its answer shows that the
/// server knows the outcome of the former, or will never run it.
job::Task<void> Workload::settle_given_up() {
  const MonoTime begun = process_.executor().now();
  const ClientId as = session();
  const auto removed = co_await process_.client().removexattr(client::path_from_root("/"), "user.never");
  if (dead()) co_return;
  if (removed.code() != Errc::kNoAttribute) {
    note_failure("a change that changes nothing", removed.code(), begun);
    co_return;
  }
  if (as == given_up_as_) scene_.history.settled(index_);
  given_up_ = false;
  for (Doubt& doubt : doubts_) doubt.request_over = true;
}

job::Task<void> Workload::do_name(NameOp op) {
  if (given_up_ && changes(op.kind)) {
    co_await settle_given_up();
    if (given_up_ || dead()) co_return;
  }
  const MonoTime begun = process_.executor().now();
  op.number = scene_.history.begin(op, index_);
  scene_.journal.note(fmt::format("c{} begins {}", index_, to_string(scene_.names, op)));
  under_way_ = op.number;
  under_way_as_ = session();
  const Facts facts = co_await perform(op);
  if (dead()) co_return;
  under_way_ = 0;
  told(op.number, op, facts, begun);
}

/// A lease stays valid until the client learns of the restart, at most for a quarter of a session's lease.
bool Workload::may_not_know_of_crash(MonoTime begun) {
  if (scene_.meta_crashed_at < MonoTime{} || begun <= scene_.meta_crashed_at) return false;
  if (begun > scene_.meta_crashed_at + scene_.world.settings().session_lease / 4) return false;
  const ServerProcess* const now = scene_.world.server(kMetaServer);
  return now == nullptr || process_.client().session().meta().incarnation() != now->incarnation();
}

void Workload::told(NodeId number, const NameOp& op, const Facts& facts, MonoTime begun) {
  scene_.journal.note(fmt::format("c{} #{} {}", index_, number, to_string(scene_.names, facts)));
  // A client cannot make a change from state that it keeps, but it can refuse one: it knows that there is no such name.
  const bool kept = (!changes(op.kind) || facts.code != Errc::kOk) && may_not_know_of_crash(begun);
  if (facts.object && (begun <= scene_.meta_crashed_at || kept)) scene_.perhaps_forgotten.insert(facts.handle);
  if (kept && !is_transient(facts.code)) {  // the answer is from before the crash, which may have undone it
    if (!scene_.history.had_no_effect(number)) scene_.fail(scene_.history.explain());
    return;
  }
  if (is_transient(facts.code)) {
    scene_.history.give_up(number);
    given_up_ = given_up_ || changes(op.kind);
    given_up_as_ = under_way_as_;
    scene_.expect_excuse(to_string(scene_.names, op), facts.code, begun);
    return;
  }
  if (!scene_.history.answer(number, facts, process_.executor().now())) {
    scene_.fail(scene_.history.explain());
    return;
  }
  if (changes(op.kind)) {
    for (Doubt& doubt : doubts_) doubt.request_over = true;
  }
}

job::Task<Facts> Workload::perform(const NameOp& op) {
  client::Client& client = process_.client();
  const client::NamePath path = where(scene_, op.path, op.follow);
  const client::NamePath other = where(scene_, op.other, false);
  Result<void> done;
  switch (op.kind) {
    case NameOpKind::kLookup: {
      auto facts = co_await stat(op);
      co_return facts;
    }
    case NameOpKind::kReaddir: {
      auto facts = co_await list(op);
      co_return facts;
    }
    case NameOpKind::kOpen:
    case NameOpKind::kCreate: {
      auto facts = co_await open_file(op);
      co_return facts;
    }
    case NameOpKind::kUnlink: done = co_await client.unlink(path); break;
    case NameOpKind::kRmdir: done = co_await client.rmdir(path); break;
    case NameOpKind::kRename: done = co_await client.rename(path, other, op.flags); break;
    default: {
      auto facts = co_await perform_attributes(op);
      co_return facts;
    }
  }
  co_return failed(done.code());
}

job::Task<Facts> Workload::perform_attributes(const NameOp& op) {
  client::Client& client = process_.client();
  const client::NamePath path = where(scene_, op.path, op.follow);
  const client::NamePath other = where(scene_, op.other, false);
  wire::NewAttributes attributes;
  attributes.mode = op.mode.value_or(0);
  switch (op.kind) {
    case NameOpKind::kMkdir: {
      const auto made = co_await client.mkdir(path, attributes);
      co_return facts_of(made);
    }
    case NameOpKind::kSymlink: {
      const auto made = co_await client.symlink(path, scene_.targets.text(op.target), attributes);
      co_return facts_of(made);
    }
    case NameOpKind::kLink: {
      const auto made = co_await client.link(path, other);
      co_return facts_of(made);
    }
    case NameOpKind::kSetattr: {
      wire::SetattrRequest request;
      request.where = path;
      request.mode = op.mode;
      if (op.mtime) request.mtime = WallTime{*op.mtime};
      const auto set = co_await client.setattr(request);
      co_return facts_of(set);
    }
    case NameOpKind::kGetxattr: {
      const auto value = co_await client.getxattr(path, xattr_name(op.xattr));
      Facts facts = failed(value.code());
      if (value) facts.xattr = xattr_number(*value);
      co_return facts;
    }
    case NameOpKind::kSetxattr: {
      wire::SetxattrRequest request;
      request.where = path;
      request.name = xattr_name(op.xattr);
      request.value = xattr_value(op.value);
      request.flags = op.flags;
      const auto set = co_await client.setxattr(request);
      co_return failed(set.code());
    }
    case NameOpKind::kListxattr: {
      const auto names = co_await client.listxattr(path);
      Facts facts = failed(names.code());
      for (std::uint16_t i = 0; names && i < kXattrNames; ++i) {
        const bool there = std::find(names->begin(), names->end(), xattr_name(i)) != names->end();
        if (there) facts.xattr = static_cast<std::uint16_t>(facts.xattr | 1U << i);
      }
      co_return facts;
    }
    default: {
      const auto removed = co_await client.removexattr(path, xattr_name(op.xattr));
      co_return failed(removed.code());
    }
  }
}

/// The name decides on the distribution, so that all kinds are used.
DistributionSpec Workload::distribution_for(std::string_view name) {
  static const std::array<DistributionSpec, 4> specs = {DistributionSpec(), *parse_distribution("basic"),
                                                        *parse_distribution("varstrip:8 KiB,4 KiB,1:4 KiB,0:5000"),
                                                        *parse_distribution("twod_stripe:2,2")};
  const std::size_t sum = std::accumulate(name.begin(), name.end(), std::size_t{0});
  return specs[sum % specs.size()];
}

job::Task<Facts> Workload::open_file(const NameOp& op) {
  const bool scratch = scene_.names.text(op.path.parts.back()) == "scratch";
  const auto rights = static_cast<Rights>(scratch ? 3 : 1 + random_.below(3));
  auto flags = static_cast<std::uint8_t>(rights);
  client::NamePath path = where(scene_, op.path, op.follow);
  Result<std::unique_ptr<client::File>> opened = Errc::kUnknown;
  if (op.kind == NameOpKind::kCreate) {
    if (op.exclusive) flags |= wire::kOpenExclusive;
    client::NewObject object;
    object.attributes.mode = op.mode.value_or(0);
    if (!scratch) object.layout.distribution = distribution_for(scene_.names.text(op.path.parts.back()));
    opened = co_await process_.client().create(std::move(path), flags, std::move(object));
  } else {
    opened = co_await process_.client().open(std::move(path), flags);
  }
  if (!opened) co_return failed(opened.code());
  const Facts facts = facts_of((*opened)->attributes(), {});
  if (dead()) co_return facts;
  const OpenFilePtr open = std::make_shared<OpenFile>();
  open->handle = facts.handle;
  open->rights = rights;
  open->file = *std::move(opened);
  open->epoch = open->file->session_epoch();
  const std::string& called = scene_.names.text(op.path.parts.back());
  know(*open, called.starts_with("log") ? Use::kLog : called == "scratch" ? Use::kScratch : Use::kData);
  open_.push_back(open);
  co_return facts;
}

job::Task<Facts> Workload::stat(const NameOp& op) {
  // Only the answer tells which file it is. Usually it is the one in the likely state.
  Tree tree = scene_.history.likely();
  const std::uint64_t guess = apply(tree, op, scene_.targets).handle;
  const ReadId id = scene_.data.knows(guess) ? scene_.data.begin_read(guess, {}) : 0;
  auto reply = co_await process_.client().stat(where(scene_, op.path, op.follow));
  const bool right = !dead() && reply && reply->attributes.handle.value == guess && id != 0;
  if (id != 0 && !right) scene_.data.drop_read(id);
  if (dead() || !reply) co_return failed(dead() ? Errc::kCancelled : reply.code());
  const Attributes& a = reply->attributes;
  if (right) {
    const std::string wrong = scene_.data.end_stat(id, a.size);
    if (!wrong.empty()) scene_.fail(fmt::format("client {}: stat of file {}: {}", index_, guess, wrong));
  }
  co_return facts_of(a, std::move(reply->target));
}

job::Task<Facts> Workload::list(const NameOp& op) {
  wire::ReaddirRequest request;
  request.handle = Handle(op.handle);
  request.attributes = random_.chance(1, 2);
  const auto reply = co_await process_.client().readdir(request);
  if (!reply) co_return failed(reply.code());
  Facts facts;
  if (!reply->end) scene_.fail("a small directory does not come at once");
  for (const wire::DirectoryEntry& entry : reply->entries) {
    facts.listing.push_back({scene_.names.id(entry.name), entry.type, entry.handle.value, 0});
  }
  std::sort(facts.listing.begin(), facts.listing.end(),
            [](const Listed& a, const Listed& b) { return a.name < b.name; });
  co_return facts;
}

}  // namespace spate::cluster
