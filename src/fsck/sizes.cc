// SPDX-License-Identifier: Apache-2.0
#include "fsck/sizes.h"

namespace spate::fsck {

void SizeCheck::add(const wire::InodeFact& inode) {
  if (!inode.last_slot) return;
  const ServerId server = servers_.server_of(inode.last_slot->target);
  if (!server) return;  // the scan of inodes reports it
  waiting_[server].push_back({inode.handle, inode.version, inode.size, *inode.last_slot, inode.last_bytes});
}

job::Task<Result<void>> SizeCheck::ask_when_many() {
  for (const auto& [server, files] : waiting_) {
    if (files.size() < wire::kMaxProbed) continue;
    auto asked = co_await ask_all();
    co_return asked;
  }
  co_return Result<void>();
}

job::Task<Result<void>> SizeCheck::ask_all() {
  job::Gate gate(servers_.executor());
  for (auto& [server, files] : waiting_) job::spawn(gate, ask(server, std::move(files)));
  waiting_.clear();
  co_await gate.close();
  auto room = co_await queue_.make_room();
  co_return room;
}

job::Task<void> SizeCheck::ask(ServerId server, std::vector<Expected> files) {
  for (std::size_t begin = 0; begin < files.size(); begin += wire::kMaxProbed) {
    const std::size_t end = std::min(files.size(), begin + wire::kMaxProbed);
    wire::DatafileProbeRequest request;
    for (std::size_t i = begin; i < end; ++i) request.datafiles.push_back({files[i].handle, files[i].slot});
    const auto reply = co_await servers_.ask_io<wire::DatafileProbeReply>(server, request);
    // DatafileCheck reports a server that does not answer, since it asks every one.
    if (!reply || reply->datafiles.size() != end - begin) co_return;
    for (std::size_t i = begin; i < end; ++i) compare(files[i], reply->datafiles[i - begin]);
  }
}

void SizeCheck::compare(const Expected& expected, const wire::DatafilePresence& presence) {
  const std::uint64_t there = presence.present ? presence.size : 0;
  if (there == expected.bytes) return;
  // If the file has changed since its inode was read, so has the version, and the server reports that.
  wire::Finding finding;
  finding.damage = wire::Damage::kWrongSize;
  finding.handle = expected.handle;
  finding.version = expected.version;
  finding.recorded = expected.size;
  finding.actual = there;
  finding.slot = expected.slot;
  queue_.suspect(std::move(finding));
}

}  // namespace spate::fsck
