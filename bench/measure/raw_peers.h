// SPDX-License-Identifier: Apache-2.0
// RawPeers: child processes at the other end of plain TCP sockets on loopback. They do the least that a file server
// must do.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace spate::measure {

/// A request to a raw peer. It is sent as it lies in memory, since both sides are the same program on one machine.
struct RawRequest {
  enum class Op : std::uint32_t {
    kSend = 1,  // send `size` bytes of the file from `offset`, by sendfile
    /// `size` bytes follow: receive all of them, write them at `offset` by pwrite, answer with one RawRequest.
    kReceive = 2,
    kAnswer = 3,  // `offset` bytes follow: drop them, answer with `size` bytes of memory
    // `offset` bytes follow. Their first 8 are an offset in the file: pread `size` bytes from there and send them.
    kRead = 4,
  };
  Op op = Op::kAnswer;
  std::uint32_t unused = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  // at most RawPeers::kMaxBytes
};

struct RawPeersOptions {
  std::size_t peers = 4;
  std::string folder;            // each peer has a file there; empty: no files
  std::uint64_t file_bytes = 0;  // each file is filled up to here first
  int cpu = -1;                  // processor to pin the peers to; -1: none
};

/// start() forks, so call it before other threads are started. Each peer has one connection and ends when that is
/// closed. The files are unlinked at once and vanish with the processes, however these end.
class RawPeers {
 public:
  static constexpr std::uint64_t kMaxBytes = 8ULL << 20U;  // of one request

  static Result<RawPeers> start(const RawPeersOptions& options);
  RawPeers(RawPeers&& other) noexcept = default;
  RawPeers(const RawPeers&) = delete;
  RawPeers& operator=(RawPeers&& other) = delete;
  RawPeers& operator=(const RawPeers&) = delete;
  /// Waits for the children.
  ~RawPeers();

  std::size_t size() const { return processes_.size(); }
  /// This side's socket, blocking, without Nagle's delay.
  int socket(std::size_t peer) const { return processes_[peer].socket.get(); }
  /// Processor time of all peers so far, seconds.
  double cpu_seconds() const;
  /// Pins all of them; see measure/cpu.h.
  Result<void> pin(int cpu) const;

 private:
  struct Process {
    UniqueFd socket;
    pid_t pid = 0;
  };
  RawPeers() = default;
  Result<void> add(const RawPeersOptions& options);

  std::vector<Process> processes_;
};

}  // namespace spate::measure
