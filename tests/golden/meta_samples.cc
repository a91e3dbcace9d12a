// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/samples.h"
#include "wire/cluster_messages.h"
#include "wire/xattr_messages.h"

namespace spate::golden {
namespace {

constexpr Handle kFile{0x0002000000000007};
constexpr Handle kFolder{0x0002000000000003};

wire::NamePath path(std::string text = "a/b\xff.txt", std::uint8_t flags = 3) {
  return {kFolder, std::move(text), flags};
}

wire::NewAttributes new_attributes() {
  return {0640, 1001, 1002, WallTime{1'700'000'000'000'000'071}, WallTime{1'700'000'000'000'000'072}};
}

wire::DataSummary summary() { return {0x1234, 0x2000, WallTime{1'700'000'000'000'000'081}, 0x5678}; }

}  // namespace

template <>
std::vector<wire::ObjectReply> samples() {
  wire::ObjectReply file;
  file.attributes = sample_attributes();
  file.layout = sample_layout();
  wire::ObjectReply link;
  link.attributes = sample_attributes();
  link.attributes.type = FileType::kSymlink;
  link.target = "../elsewhere";
  return {file, link};
}

template <>
std::vector<wire::AccessRequest> samples() {
  wire::AccessRequest m;
  m.where.start = Handle(7);
  m.where.path = "a/b";
  m.want = 5;
  return {m};
}

template <>
std::vector<wire::LookupRequest> samples() {
  return {{path()}};
}

template <>
std::vector<wire::GetattrRequest> samples() {
  return {{kFile}};
}

template <>
std::vector<wire::SetattrRequest> samples() {
  wire::SetattrRequest all;
  all.where = path();
  all.mode = 0640;
  all.uid = 1001;
  all.gid = 1002;
  all.atime = WallTime{1'700'000'000'000'000'091};
  all.mtime = WallTime{1'700'000'000'000'000'092};
  all.atime_now = true;
  all.btime = WallTime{1'700'000'000'000'000'093};
  all.data = summary();
  wire::SetattrRequest touch;
  touch.where = path("", 0);
  touch.mtime_now = true;
  return {all, touch};
}

template <>
std::vector<wire::CreateRequest> samples() {
  wire::CreateRequest all;
  all.where = path();
  all.type = FileType::kCharDevice;
  all.device = 0x0501;
  all.attributes = new_attributes();
  all.layout = {65536, 4, TargetId(513), {TargetId(513), TargetId(768)}, {}};
  all.open_flags = wire::kOpenWrite | wire::kOpenExclusive;
  wire::CreateRequest plain;
  plain.where = path("f", 1);
  plain.type = FileType::kRegular;
  plain.attributes.mode = 0644;
  return {all, plain};
}

template <>
std::vector<wire::OpenReply> samples() {
  wire::OpenReply m;
  m.object = samples<wire::ObjectReply>().front();
  m.capability = sample_capability();
  m.created = true;
  wire::OpenReply cut = m;
  cut.created = false;
  cut.truncated = true;
  return {m, cut};
}

template <>
std::vector<wire::OpenRequest> samples() {
  return {{path(), wire::kOpenRead | wire::kOpenTruncate, true}};
}

wire::CloseRequest close_request() {
  wire::CloseRequest all;
  all.handle = kFile;
  all.rights = Rights::kWrite;
  all.data = summary();
  all.atime = WallTime{1'700'000'000'000'000'101};
  all.mtime = WallTime{1'700'000'000'000'000'102};
  all.mode = 0600;
  return all;
}

template <>
std::vector<wire::CloseWritersRequest> samples() {
  return {{close_request(), 3}};
}

template <>
std::vector<wire::CloseRequest> samples() {
  const wire::CloseRequest all = close_request();
  wire::CloseRequest plain;
  plain.handle = kFile;
  plain.rights = Rights::kRead;
  return {all, plain};
}

template <>
std::vector<wire::MkdirRequest> samples() {
  return {{path(), new_attributes()}};
}

template <>
std::vector<wire::SymlinkRequest> samples() {
  return {{path(), "../elsewhere", new_attributes()}};
}

template <>
std::vector<wire::LinkRequest> samples() {
  return {{path("old", 0), path("new", 1)}};
}

template <>
std::vector<wire::UnlinkRequest> samples() {
  return {{path()}};
}

template <>
std::vector<wire::RmdirRequest> samples() {
  return {{path()}};
}

template <>
std::vector<wire::RenameRequest> samples() {
  return {{path("old", 0), path("new", 2), wire::kRenameExchange}};
}

template <>
std::vector<wire::ReaddirRequest> samples() {
  wire::ReaddirRequest m;
  m.handle = kFolder;
  m.cookie = 0x7123456789ABCDEF;
  m.max_entries = 1000;
  m.attributes = true;
  return {m};
}

template <>
std::vector<wire::ReaddirReply> samples() {
  wire::DirectoryEntry file{"file",         kFile, FileType::kRegular, 0x7123456789ABCDEF, sample_attributes(),
                            sample_layout()};
  wire::DirectoryEntry folder{"\xff", kFolder, FileType::kDirectory, 17, {}, {}};
  wire::ReaddirReply m;
  m.entries = {file, folder};
  m.end = true;
  m.parent = kRootHandle;
  return {m};
}

template <>
std::vector<wire::TruncateRequest> samples() {
  return {{path(), true, 0x123456789A}};
}

template <>
std::vector<wire::GetxattrRequest> samples() {
  return {{path(), "user.colour"}};
}

template <>
std::vector<wire::GetxattrReply> samples() {
  return {{to_bytes(as_bytes("blue"))}};
}

template <>
std::vector<wire::SetxattrRequest> samples() {
  return {{path(), "user.colour", to_bytes(as_bytes("blue")), wire::kXattrReplace}};
}

template <>
std::vector<wire::ListxattrRequest> samples() {
  return {{path()}};
}

template <>
std::vector<wire::ListxattrReply> samples() {
  return {{{"user.colour", "user.spate.layout"}}};
}

template <>
std::vector<wire::RemovexattrRequest> samples() {
  return {{path(), "user.colour"}};
}

template <>
std::vector<wire::MetaStatfsRequest> samples() {
  return {{}};
}

template <>
std::vector<wire::MetaStatfsReply> samples() {
  return {{1'000'001, 17, 3}};
}

template <>
std::vector<wire::MetaSyncRequest> samples() {
  return {{}};
}

template <>
std::vector<wire::ClusterMapRequest> samples() {
  return {{}};
}

template <>
std::vector<wire::ClusterMapReply> samples() {
  wire::ClusterMapReply reply;
  reply.map.version = 3;
  reply.map.fs = FsId(0x1234'5678'9ABC'DEF0);
  reply.map.servers.push_back({ServerId(1), {"tcp://10.0.0.1:7401"}, {true, false}, {}});
  const std::vector<TargetId> targets{target_id(ServerId(2), 0), target_id(ServerId(2), 1)};
  reply.map.servers.push_back({ServerId(2), {"shm:///run/spate/2", "tcp://10.0.0.2:7402"}, {false, true}, targets});
  wire::ClusterMapReply with_racks = reply;
  with_racks.map.servers.back().rack = "rack-2.b";
  return {reply, with_racks};
}

}  // namespace spate::golden
