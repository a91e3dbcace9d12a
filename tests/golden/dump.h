// SPDX-License-Identifier: Apache-2.0
// Dump: writes the fields of a message as text, one a line, so that two messages can be compared.
#pragma once

#include <fmt/format.h>

#include <string>

#include "wire/archive.h"

namespace spate::golden {

/// An archive like wire::Writer that writes text.
class Dump {
 public:
  template <typename... T>
  void operator()(const T&... values) {
    (write(values), ...);
  }
  const std::string& text() const { return text_; }

 private:
  void line(const std::string& text) { text_ += std::string(depth_, ' ') + text + "\n"; }
  template <typename... T>
  void inside(std::string_view name, const T&... values) {
    line(std::string(name));
    ++depth_;
    (write(values), ...);
    --depth_;
  }

  template <std::integral T>
  void write(T v) {
    line(fmt::format("{}", v));
  }
  void write(bool v) { line(v ? "true" : "false"); }
  void write(const std::string& v) { write(as_bytes(v)); }
  void write(const Bytes& v) { write(ByteView(v)); }
  void write(ByteView v) {
    std::string hex;
    for (const std::byte b : v) hex += fmt::format("{:02x}", std::to_integer<unsigned>(b));
    line("\"" + hex + "\"");
  }
  void write(WallTime v) { write(v.ns); }
  template <typename E>
    requires std::is_enum_v<E>
  void write(E v) {
    write(static_cast<std::underlying_type_t<E>>(v));
  }
  template <std::size_t N>
  void write(const std::array<std::byte, N>& v) {
    write(ByteView(v));
  }
  template <typename Tag, typename Rep>
  void write(StrongId<Tag, Rep> v) {
    write(v.value);
  }
  template <typename T>
  void write(const std::vector<T>& v) {
    line(fmt::format("{} of", v.size()));
    ++depth_;
    for (const T& item : v) write(item);
    --depth_;
  }
  template <typename T>
  void write(const std::optional<T>& v) {
    v ? inside("given", *v) : line("absent");
  }
  template <typename T>
    requires wire::HasFields<T, Dump>
  void write(const T& v) {
    line("{");
    ++depth_;
    const_cast<T&>(v).fields(*this);  // Dump only reads the value
    --depth_;
  }
  void write(const Attributes& v) {
    inside("attributes", v.handle, v.type, v.mode, v.uid, v.gid, v.project, v.link_count, v.device, v.size,
           v.allocated_bytes, v.atime, v.mtime, v.ctime, v.btime, v.version, v.size_known, v.change_sum);
  }
  void write(const Credential& v) { inside("credential", v.uid, v.gid, v.groups); }
  void write(const Capability& v) {
    inside("capability", v.handle, v.rights, v.layout_generation, v.client, v.session_epoch, v.uid, v.gid, v.project,
           v.expiry, v.mac);
  }
  void write(const SessionTicket& v) { inside("ticket", v.client, v.epoch, v.uid, v.gid, v.expiry, v.mac); }
  void write(const Slot& v) { inside("slot", v.targets); }
  void write(const DistributionSpec& v) {
    v.parameters.empty() ? write(v.kind) : inside("distribution", v.kind, v.parameters);
  }
  void write(const GroupMember& v) { inside("group_member", v.target, v.state); }
  void write(const DataGroup& v) { inside("data_group", v.id, v.epoch, v.primary, v.members, v.min, v.loss); }
  void write(const Layout& v) { inside("layout", v.generation, v.distribution, v.redundancy, v.strip_bytes, v.slots); }
  void write(const ClusterMap& v) { inside("cluster map", v.version, v.fs, v.servers); }
  void write(const ServerEntry& v) { inside("server", v.id, v.urls, v.roles.meta, v.roles.io, v.targets, v.rack); }
  void write(const Extent& v) { inside("piece", v.offset, v.size); }
  void write(const datatype::Level& v) { inside("level", v.count, v.stride); }
  void write(const datatype::Description& v) {
    inside("description", v.kind(), v.offset(), v.block_bytes(), v.first(), v.total_bytes(),
           std::vector(v.levels().begin(), v.levels().end()), std::vector(v.pieces().begin(), v.pieces().end()));
  }

  std::string text_;
  std::size_t depth_ = 0;
};

template <typename T>
std::string dump(const T& value) {
  Dump out;
  out(value);
  return out.text();
}

}  // namespace spate::golden
