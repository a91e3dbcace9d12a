// SPDX-License-Identifier: Apache-2.0
// The messages of `spate fsck`.
#include "tests/golden/samples.h"

namespace spate::golden {
namespace {

constexpr Handle kFile{0x0002000000000007};
constexpr Handle kFolder{0x0002000000000003};

wire::Finding finding() {
  wire::Finding f;
  f.damage = wire::Damage::kWrongSize;
  f.handle = kFile;
  f.directory = kFolder;
  f.name = "b\xff.txt";
  f.recorded = 0x1234;
  f.actual = 0x5678;
  f.version = 77;
  f.client = ClientId(0x0102030405060708);
  f.epoch = 5;
  f.slot = {3, TargetId(513)};
  f.since = WallTime{1'700'000'000'000'000'131};
  f.key = to_bytes(as_bytes("i-key"));
  return f;
}

}  // namespace

template <>
std::vector<wire::MetaScanRequest> samples() {
  wire::MetaScanRequest m;
  m.what = wire::ScanKind::kEntries;
  m.after = to_bytes(as_bytes("after"));
  m.max = 500;
  m.low = Handle(2);
  m.high = Handle(0x0002FFFFFFFFFFFF);
  m.findings = false;
  m.names = true;
  m.grace_ns = 60'000'000'000;
  return {m};
}

template <>
std::vector<wire::MetaScanReply> samples() {
  wire::MetaScanReply m;
  m.findings = {finding()};
  m.inodes = {{kFile, 77, FileType::kSymlink, 3, 0x123456789A, wire::SlotRef{2, TargetId(768)}, 0x9A},
              {kFolder, 78, FileType::kDirectory, 2, 0, {}, 0}};
  m.entries = {{kFile, kFolder, "b\xff.txt"}};
  m.directories = {{kFolder, 78, 11, 12, 13, 14}};
  m.records = 500;
  m.unfinished = 6;
  m.next = to_bytes(as_bytes("next"));
  m.end = true;
  return {m};
}

template <>
std::vector<wire::MetaRepairRequest> samples() {
  return {{finding(), true}};
}

template <>
std::vector<wire::MetaRepairReply> samples() {
  return {{wire::RepairOutcome::kLeft, "its server is down", "/a/b"}};
}

template <>
std::vector<wire::MetaJudgeRequest> samples() {
  return {{{{kFile, {3, TargetId(513)}, 0x1234}, {Handle(8), {0, TargetId(512)}, 0x5678}}}};
}

template <>
std::vector<wire::MetaJudgeReply> samples() {
  return {{{{wire::Verdict::kTooLong, 77, 0x1234}, {wire::Verdict::kOrphan, 0, 0}}}};
}

template <>
std::vector<wire::DatafileProbeRequest> samples() {
  return {{{{kFile, {3, TargetId(513)}}, {Handle(8), {0, TargetId(512)}}}}};
}

template <>
std::vector<wire::DatafileProbeReply> samples() {
  return {{{{true, 0x1234}, {false, 0}}}};
}

template <>
std::vector<wire::DatafileDigestRequest> samples() {
  return {{{kFile, {3, TargetId(513)}}, 0x100000, 0x200000}};
}

template <>
std::vector<wire::DatafileDigestReply> samples() {
  return {{{0x1234, 0x5678}}};
}

template <>
std::vector<wire::CopyRenewRequest> samples() {
  wire::CopyRenewRequest m;
  m.group = TargetId(0x01000002);
  m.member = TargetId(513);
  m.source = TargetId(768);
  m.datafiles = {{kFile, {3, TargetId(513)}}, {Handle(8), {0, TargetId(513)}}};
  return {m};
}

template <>
std::vector<wire::CopyRenewReply> samples() {
  return {{0x1234}};
}

}  // namespace spate::golden
