// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/samples.h"

namespace spate::golden {

template <>
std::vector<wire::BypassLeaseRequest> samples() {
  wire::BypassLeaseRequest m;
  m.handle = Handle(0x0002000000000007);
  m.slots = {{1, TargetId(513)}, {3, TargetId(768)}};
  m.for_writing = true;
  return {m};
}

template <>
std::vector<wire::BypassLeaseReply> samples() {
  wire::BypassLeaseReply m;
  m.leases = {{0x1122334455667788, ""}, {0, "other clients write the datafile, too"}};
  return {m};
}

template <>
std::vector<wire::BypassReturnRequest> samples() {
  wire::BypassReturnRequest m;
  m.leases = {{0x1122334455667788, 0x10000, 0x20000}, {0x1122334455667789, 0, 1}};
  return {m};
}

template <>
std::vector<wire::ExplainPathRequest> samples() {
  wire::ExplainPathRequest m;
  m.where.handle = Handle(0x0002000000000007);
  m.where.strip_bytes = 1 << 20;
  m.where.slot_count = 4;
  m.where.slots = {{1, TargetId(513)}, {3, TargetId(768)}};
  m.what = *datatype::Description::contiguous(0x3000, 0x5000);
  m.is_write = true;
  m.path = wire::DataPath::kDirect;
  return {m};
}

template <>
std::vector<wire::ExplainPathReply> samples() {
  wire::ExplainPathReply m;
  m.slots = {{wire::DataPath::kCached, "the page cache is sent as it is", "a lease can be had"},
             {wire::DataPath::kAutomatic, "no direct path", "flow.bypass is off on this server"}};
  return {m};
}

}  // namespace spate::golden
