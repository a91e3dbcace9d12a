// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/samples.h"

namespace spate::golden {

template <>
std::vector<wire::ChangeBatchRequest> samples() {
  wire::MkdirRequest mkdir;
  mkdir.where.path = "d";
  mkdir.attributes.mode = 0750;
  wire::UnlinkRequest unlink;
  unlink.where.path = "d/f";
  wire::ChangeBatchRequest m;
  m.changes.resize(2);
  m.changes[0].op = wire::Op::kMkdir;
  wire::encode_body(mkdir, m.changes[0].body);
  m.changes[1].op = wire::Op::kUnlink;
  wire::encode_body(unlink, m.changes[1].body);
  return {m};
}

template <>
std::vector<wire::ChangeBatchReply> samples() {
  wire::ChangeBatchReply m;
  m.answers.resize(2);
  m.answers[0].status = Errc::kOk;
  m.answers[0].body = {std::byte{1}, std::byte{2}, std::byte{3}};
  m.answers[1].status = Errc::kNotFound;
  m.answers[1].context = "d/f";
  return {m};
}

}  // namespace spate::golden
