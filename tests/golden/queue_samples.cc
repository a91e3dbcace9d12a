// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/samples.h"

namespace spate::golden {
namespace {

constexpr Handle kFile{0x0002000000000007};
constexpr WallTime kTime{1'700'000'000'000'000'001};

}  // namespace

template <>
std::vector<wire::ReserveHandlesRequest> samples() {
  return {{kFile, 1000}};
}

template <>
std::vector<wire::ReserveHandlesReply> samples() {
  return {{kFile, 1000, 0x1718}};
}

template <>
std::vector<wire::QueuedChangesRequest> samples() {
  wire::MkdirRequest mkdir;
  mkdir.where.path = "d";
  mkdir.attributes.mode = 0750;
  wire::CloseRequest close;
  close.handle = kFile;
  close.rights = Rights::kWrite;
  wire::QueuedChangesRequest m;
  m.first = 0x1718;
  m.changes.resize(2);
  m.changes[0].op = wire::Op::kMkdir;
  m.changes[0].at = kTime;
  m.changes[0].handle = Handle(0x0002000000000009);
  wire::encode_body(mkdir, m.changes[0].body);
  m.changes[1].op = wire::Op::kClose;
  m.changes[1].at = kTime;
  wire::encode_body(close, m.changes[1].body);
  return {m};
}

template <>
std::vector<wire::QueuedChangesReply> samples() {
  wire::QueuedChangesReply m;
  m.answers.resize(3);
  m.answers[0].status = Errc::kOk;
  m.answers[0].body = {std::byte{1}, std::byte{2}, std::byte{3}};
  m.answers[1].status = Errc::kOk;
  m.answers[2].status = Errc::kExists;
  m.answers[2].context = "d";
  return {m};
}

}  // namespace spate::golden
