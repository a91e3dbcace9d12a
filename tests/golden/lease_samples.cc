// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/samples.h"

namespace spate::golden {

template <>
std::vector<wire::LookupLeaseRequest> samples() {
  wire::LookupLeaseRequest m;
  m.where = {Handle(0x0002000000000005), "dir/name", wire::NamePath::kFollowLast};
  return {m};
}

template <>
std::vector<wire::LookupLeaseReply> samples() {
  wire::LookupLeaseReply found;
  found.object = wire::ObjectReply{sample_attributes(), sample_layout(), "target"};
  found.steps = {{Handle(0x0002000000000005), "dir", Handle(0x0002000000000006), FileType::kDirectory},
                 {Handle(0x0002000000000006), "name", Handle(0x0002000000000007), FileType::kRegular}};
  found.granted = true;
  found.table = 0x5566778899AABBCC;
  found.lease_ms = 10000;
  wire::LookupLeaseReply nothing;
  nothing.steps = {{Handle(0x0002000000000005), "dir", Handle(), FileType::kRegular}};
  return {found, nothing};
}

template <>
std::vector<wire::ListLeaseRequest> samples() {
  return {{Handle(0x0002000000000005), 0x7123456789ABCDEF, 1000}};
}

template <>
std::vector<wire::ListLeaseReply> samples() {
  wire::ListLeaseReply m;
  wire::DirectoryEntry file{"file", Handle(0x0002000000000007), FileType::kRegular,
                            17,     sample_attributes(),        sample_layout()};
  wire::DirectoryEntry link{"link", Handle(0x0002000000000008), FileType::kSymlink, 18, sample_attributes(), {}};
  m.page.entries = {file, link};
  m.page.end = true;
  m.page.parent = kRootHandle;
  m.targets = {"target"};
  m.granted = true;
  m.refused = {1};
  m.table = 0x5566778899AABBCC;
  m.lease_ms = 10000;
  return {m};
}

template <>
std::vector<wire::Touched> samples() {
  return {{true,
           {Handle(0x0002000000000006), Handle(0x0002000000000007)},
           {{Handle(0x0002000000000006), "old"}, {Handle(0x0002000000000008), "new"}}}};
}

template <>
std::vector<wire::Granted> samples() {
  wire::Granted m;
  m.granted = true;
  m.table = 0x5566778899AABBCC;
  m.lease_ms = 10000;
  m.order = 0x1122;
  m.objects = {{wire::ObjectReply{sample_attributes(), sample_layout(), "target"}, 0},
               {wire::ObjectReply{sample_attributes(), {}, ""},
                wire::GrantedObject::kSearchable | wire::GrantedObject::kNeverUsed}};
  m.names = {{Handle(0x0002000000000006), "new", Handle(0x0002000000000007), FileType::kRegular}};
  return {m};
}

}  // namespace spate::golden
