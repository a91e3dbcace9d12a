// SPDX-License-Identifier: Apache-2.0
// path_client SPATE.TOML: a client that reads commands from its standard input, one a line, and answers each of them
// with one line.
//   create PATH [MODE] | open PATH     the file that the other commands use
//   path auto|buffered|cached|direct|bypass|p2p
//   write OFFSET SIZE SEED | check OFFSET SIZE SEED     bytes that depend on their offset and SEED
//   together OFFSET SIZE SEED          a check in eight pieces at the same time
//   sync | size | bypassed | truncate SIZE | punch OFFSET SIZE | close
//   lease [both|read|write] [PATH]     takes a lease on slot 0 for both or for one of them, without the library's help
//   allowed                            what the lease's descriptor permits: "read", "write", "... reopen"
//   stop OFFSET SIZE SEED              begins a write under the lease and stops (SIGSTOP); after that it writes the
//                                      bytes and answers "fine" or "fenced"
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <sstream>

#include "assembly/client_process.h"
#include "assembly/locate.h"
#include "base/shared_page.h"
#include "job/gate.h"
#include "model/lease_words.h"
#include "wire/bypass_messages.h"

namespace spate {
namespace {

std::byte byte_at(std::uint64_t seed, std::uint64_t offset) {
  const std::uint64_t word = (seed + 1) * 0x9E3779B97F4A7C15ULL + (offset / 8) * 0xBF58476D1CE4E5B9ULL;
  return static_cast<std::byte>((word ^ (word >> 29U)) >> (8 * (offset % 8)));
}

Bytes pattern(std::uint64_t seed, std::uint64_t offset, std::uint64_t size) {
  Bytes out(size);
  for (std::uint64_t i = 0; i < size; ++i) out[i] = byte_at(seed, offset + i);
  return out;
}

/// A lease as the server grants it, without the library's management.
struct RawLease {
  UniqueFd file;
  SharedPage page;
  LeaseWords& words() const { return *reinterpret_cast<LeaseWords*>(page.data()); }
};

class TagWatch final : public rpc::Bulk {
 public:
  void post(bmi::Address its_peer, bmi::Tag its_tag, const std::shared_ptr<wire::BulkSeals>& /*seals*/) override {
    peer = its_peer;
    tag = its_tag.value;
  }
  job::Task<void> abandon() override { co_return; }
  bmi::Address peer;
  std::uint64_t tag = 0;
};

job::Task<Result<RawLease>> take_lease(client::Client& client, const std::string& path, std::uint8_t open_flags) {
  const bool for_writing = (open_flags & wire::kOpenWrite) != 0;
  wire::OpenRequest open;
  open.where = client::path_from_root(path);
  open.open_flags = open_flags;
  SPATE_CO_TRY(const auto opened, co_await client.cluster().change(open, client.session().limits()));
  wire::BypassLeaseRequest request;
  request.handle = opened.object.attributes.handle;
  request.slots = {{0, opened.object.layout->slots[0].targets.front()}};
  request.for_writing = for_writing;
  SPATE_CO_TRY(rpc::Channel * channel, client.session().servers().io_channel(request.slots[0].target));
  TagWatch watch;
  rpc::CallOptions options = client.session().limits().call_options();
  options.capability = &opened.capability;
  options.bulk = &watch;
  SPATE_CO_TRY(const auto reply, co_await channel->call<wire::BypassLeaseReply>(request, options));
  if (reply.leases[0].lease_id == 0) co_return Error(Errc::kNotSupported, reply.leases[0].refusal);
  bmi::Network& network = client.session().network().network();
  SPATE_CO_TRY(const UniqueFd page, network.take_descriptor(watch.peer, bmi::Tag(watch.tag + 1)));
  RawLease lease;
  SPATE_CO_TRY(lease.file, network.take_descriptor(watch.peer, bmi::Tag(watch.tag + 2)));
  SPATE_CO_TRY(lease.page, SharedPage::map(page.get(), for_writing));
  co_return std::move(lease);
}

class Worker {
 public:
  explicit Worker(assembly::ClientProcess& process) : process_(process) {}

  std::string answer(const std::string& line) {
    std::istringstream in(line);
    std::string command;
    in >> command;
    const auto result = carry_out(command, in);
    return result ? *result : "error " + result.error().message();
  }

 private:
  Result<std::string> carry_out(const std::string& command, std::istringstream& in) {
    if (command == "create" || command == "open") return open(in, command == "create");
    if (command == "path") return force(in);
    if (command == "lease") return lease(in);
    if (command == "allowed") return allowed();
    if (file_ == nullptr) return Error(Errc::kBadDescriptor, "no file is open");
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::uint64_t seed = 0;
    if (command == "truncate") {
      in >> size;
      return done(process_.run([&](client::Client&) { return file_->truncate(size); }));
    }
    in >> offset >> size >> seed;
    if (command == "write") return write(offset, pattern(seed, offset, size));
    if (command == "check") return check(offset, pattern(seed, offset, size));
    if (command == "together") return together(offset, pattern(seed, offset, size));
    if (command == "stop") return stop(offset, pattern(seed, offset, size));
    if (command == "punch") return done(process_.run([&](client::Client&) { return file_->punch(offset, size); }));
    if (command == "sync") return done(process_.run([&](client::Client&) { return file_->sync(); }));
    if (command == "bypassed") return std::to_string(file_->bypassed_bytes());
    if (command == "close") return close();
    if (command == "size") {
      SPATE_TRY(const Attributes attributes, process_.run([&](client::Client&) { return file_->stat(); }));
      return std::to_string(attributes.size);
    }
    return Error(Errc::kInvalidArgument, "no such command: " + command);
  }

  static Result<std::string> done(Result<void> result) {
    if (!result) return std::move(result).error();
    return std::string("ok");
  }
  Result<std::string> open(std::istringstream& in, bool make) {
    unsigned mode = 0644;
    in >> path_ >> std::oct >> mode;
    const std::uint8_t flags = wire::kOpenRead | wire::kOpenWrite;
    client::NewObject object;
    object.attributes.mode = in ? mode : 0644;
    SPATE_TRY(file_, process_.run([&](client::Client& client) {
      return make ? client.create(client::path_from_root(path_), flags, object)
                  : client.open(client::path_from_root(path_), flags);
    }));
    return std::string("ok");
  }
  Result<std::string> force(std::istringstream& in) {
    std::string name;
    in >> name;
    const char* const names[] = {"auto", "buffered", "cached", "direct", "bypass", "p2p"};
    for (std::uint8_t i = 0; i < 6; ++i) {
      if (name == names[i]) file_->force_path(static_cast<wire::DataPath>(i));
    }
    return std::string("ok");
  }
  Result<std::string> write(std::uint64_t offset, const Bytes& data) {
    return done(process_.run([&](client::Client&) { return file_->write(offset, data); }));
  }
  Result<std::string> check(std::uint64_t offset, const Bytes& expected) {
    Bytes data(expected.size());
    SPATE_TRY(const std::uint64_t got, process_.run([&](client::Client&) { return file_->read(offset, data); }));
    if (got != expected.size()) return "short " + std::to_string(got);
    for (std::size_t i = 0; i < data.size(); ++i) {
      if (data[i] != expected[i]) return "differs at " + std::to_string(offset + i);
    }
    return std::string("ok");
  }
  static job::Task<void> read_piece(client::File& file, std::uint64_t offset, MutableByteView memory,
                                    Result<void>& outcome) {
    const auto got = co_await file.read(offset, memory);
    if (!got) outcome = got.error();
  }
  static job::Task<Result<void>> read_pieces(client::File& file, std::uint64_t offset, MutableByteView memory) {
    Result<void> outcome;
    job::Gate gate(file.executor());
    const std::size_t piece = (memory.size() + 7) / 8;
    for (std::size_t at = 0; at < memory.size(); at += piece) {
      job::spawn(gate, read_piece(file, offset + at, memory.subspan(at, std::min(piece, memory.size() - at)), outcome));
    }
    co_await gate.close();
    co_return outcome;
  }
  Result<std::string> together(std::uint64_t offset, const Bytes& expected) {
    Bytes data(expected.size());
    SPATE_TRY(std::ignore, process_.run([&](client::Client&) { return read_pieces(*file_, offset, data); }));
    return std::string(data == expected ? "ok" : "differs");
  }
  Result<std::string> close() {
    auto closed = process_.run([&](client::Client&) { return file_->close(); });
    file_ = nullptr;
    if (!closed) return std::move(closed).error();
    return std::string("ok");
  }
  Result<std::string> lease(std::istringstream& in) {
    std::string how;
    in >> how;
    std::uint8_t flags = wire::kOpenRead | wire::kOpenWrite;
    in >> path_;
    if (how == "read") flags = wire::kOpenRead;
    if (how == "write") flags = wire::kOpenWrite;
    SPATE_TRY(lease_, process_.run([&](client::Client& client) { return take_lease(client, path_, flags); }));
    return std::string("ok");
  }
  Result<std::string> allowed() {
    const int fd = lease_.file.get();
    char byte = 0;
    std::string can = ::pread(fd, &byte, 1, 0) >= 0 ? "read" : "";
    if (::pwrite(fd, &byte, 1, 0) == 1) can += " write";
    if (UniqueFd(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC))) can += " reopen";
    return can;
  }
  Result<std::string> stop(std::uint64_t offset, const Bytes& data) {
    if (!lease_.words().begin()) return std::string("recalled");
    ::raise(SIGSTOP);
    const ssize_t n = ::pwrite(lease_.file.get(), data.data(), data.size(), static_cast<off_t>(offset));
    lease_.words().writes.fetch_add(1);
    const bool fine = lease_.words().end();
    if (n != static_cast<ssize_t>(data.size())) return Error(Errc::kIoError, "the late write failed");
    return std::string(fine ? "fine" : "fenced");
  }

  assembly::ClientProcess& process_;
  std::string path_;
  std::unique_ptr<client::File> file_;
  RawLease lease_;
};

int run(const char* config) {
  assembly::ClientSettings settings;
  settings.config_file = config;
  settings.program = "path_client";
  settings.credential = assembly::own_credential();
  auto overrides = config::overrides_from_environment(assembly::whole_environment());
  if (overrides) settings.overrides = *std::move(overrides);
  const auto process = assembly::ClientProcess::open(settings);
  if (!process) {
    std::cout << "error " << process.error().message() << std::endl;
    return 1;
  }
  Worker worker(**process);
  for (std::string line; std::getline(std::cin, line);) std::cout << worker.answer(line) << std::endl;
  return 0;
}

}  // namespace
}  // namespace spate

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  return spate::run(argv[1]);
}
