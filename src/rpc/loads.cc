// SPDX-License-Identifier: Apache-2.0
#include "rpc/loads.h"

#include <string>

#include "base/printable.h"

namespace spate::rpc {
namespace {

/// Makes the text printable, since a client may have written anything, and cuts it at the end of a character.
std::string cut_description(const std::string& description) {
  std::string kept = printable(std::string_view(description).substr(0, wire::kMaxLoadDescription));
  if (kept.size() <= wire::kMaxLoadDescription) return kept;
  std::size_t end = wire::kMaxLoadDescription;
  while (end > 0 && (static_cast<unsigned char>(kept[end]) & 0xC0U) == 0x80U) --end;
  kept.resize(end);
  return kept;
}

}  // namespace

std::optional<wire::LoadKind> load_kind(wire::Op op) {
  using wire::Op;
  switch (op) {
    case Op::kHello:
    case Op::kAuthenticate:
    case Op::kPing:
    case Op::kStats:
    case Op::kKeepAlive:
    case Op::kListLoads:
    case Op::kListFileLoads:
    case Op::kSessionEvents:
    case Op::kGroupMessage: return std::nullopt;
    case Op::kRead: return wire::LoadKind::kRead;
    case Op::kWrite: return wire::LoadKind::kWrite;
    case Op::kSetattr:
    case Op::kCreate:
    case Op::kMkdir:
    case Op::kSymlink:
    case Op::kLink:
    case Op::kUnlink:
    case Op::kRmdir:
    case Op::kRename:
    case Op::kTruncate:
    case Op::kSetxattr:
    case Op::kRemovexattr:
    case Op::kChangeBatch:
    case Op::kQueuedChanges:
    case Op::kMetaRepair:
    case Op::kPunch:
    case Op::kDatafileTruncate:
    case Op::kDatafileRemove:
    case Op::kDatafileCopy:
    case Op::kDatafileAllocate: return wire::LoadKind::kChange;
    default: return wire::LoadKind::kLook;
  }
}

void Loads::note(const Peer& peer, const Served& served, MonoTime now) {
  const std::uint64_t key = peer.kind == wire::PeerKind::kServer ? 0 : peer.client.value;
  clients_.note(key, served, now, [&] {
    wire::ClientLoad about;
    about.kind = peer.kind;
    about.client = ClientId(key);
    about.uid = peer.credential.uid;
    about.description = key == 0 ? "servers" : cut_description(peer.description);
    return about;
  });
}

void Loads::note_file(Handle file, const Served& served, MonoTime now) {
  files_.note(file.value, served, now, [&] {
    wire::FileLoad about;
    about.file = file;
    return about;
  });
}

wire::ListLoadsReply Loads::list(MonoTime now) const {
  return {clients_.since_begin(now), clients_.list(), clients_.others(), clients_.dropped()};
}

wire::ListFileLoadsReply Loads::list_files(MonoTime now) const {
  return {files_.since_begin(now), files_.list(), files_.others(), files_.dropped()};
}

}  // namespace spate::rpc
