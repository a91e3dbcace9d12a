// SPDX-License-Identifier: Apache-2.0
// Output: replies on their way to the client. It gathers bytes into few system calls, and sends parts of files.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "nbd/memory_budget.h"
#include "nbd/protocol.h"
#include "nbd/transport.h"

namespace spate::nbd {

/// Buffers of one size. The one used last is reused first, since it is still in the processor's cache. One executor;
/// outlives the buffers.
class ReplyBuffers {
 public:
  /// Most bytes gathered into one system call. Measured: bench/nbd.
  static constexpr std::size_t kBytes = 256UL * 1024;
  Buffer take();
  void give_back(Buffer buffer);
  /// Buffers that are taken and not given back.
  std::size_t in_use() const { return in_use_; }

 private:
  static constexpr std::size_t kKept = 64;
  std::size_t in_use_ = 0;
  std::vector<Buffer> free_;
};

/// How a reply with data from a file ends: with a chunk behind the data, or without one.
struct FileReply {
  int fd = -1;  // not owned; stays open until the reply is sent or dropped
  std::uint64_t offset = 0;
  std::uint32_t size = 0;  // bytes, > 0
  std::uint64_t cookie = 0;
  bool structured = false;
};

/// First in, first out. One connection, on the thread of its loop; the pool of buffers outlives it. The destructor
/// drops what was not sent, and returns the buffers and the shares of the budget. After a failed flush() a reply may be
/// half sent, so only clear() and the destructor may follow. kTryAgain is no failure: flush() goes on where it stopped.
class Output {
 public:
  explicit Output(ReplyBuffers& buffers) : buffers_(buffers) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();

  /// Room for `size` <= ReplyBuffers::kBytes contiguous bytes, to be filled before anything else is added.
  std::byte* reserve(std::size_t size);
  /// Takes back the last `size` bytes of the last reserve().
  void unreserve(std::size_t size);
  void add(ByteView bytes);
  /// Sends the bytes from where they are; returns `hold` afterwards.
  void add(Buffer bytes, MemoryBudget::Hold hold);
  /// Adds the data of a reply whose header was added before. If the file turns out to be shorter, a structured reply is
  /// filled with zeros and ends with an error; a simple one can only end the connection.
  void add_file(const FileReply& reply);

  /// Drops what was not sent.
  void clear();
  /// Bytes of the budget that its replies hold.
  std::size_t held() const { return held_; }
  /// How many replies have returned their share of the budget.
  std::uint64_t let_go() const { return let_go_; }
  bool empty() const { return segments_.empty(); }
  /// Unsent bytes in memory.
  std::size_t memory() const { return memory_; }
  std::size_t segments() const { return segments_.size(); }
  /// Sends as much as the transport takes, up to about `most` bytes. kTryAgain: it takes no more for now; any other
  /// failure ends the connection.
  Result<void> flush(Transport& transport, std::size_t most);

 private:
  struct Segment {
    MemoryBudget::Hold hold;
    Buffer buffer;  // empty for a file
    std::size_t begin = 0;
    std::size_t end = 0;
    bool pooled = false;
    FileReply file;
    bool file_gone = false;
    std::array<std::byte, kErrorChunkBytes> trailer{};  // behind a file
    std::size_t trailer_begin = 0;
    std::size_t trailer_end = 0;

    bool is_file() const { return file.size > 0; }
    ByteView bytes() const {
      if (trailer_begin < trailer_end) return ByteView(trailer).subspan(trailer_begin, trailer_end - trailer_begin);
      return buffer.view().subspan(begin, end - begin);
    }
  };
  // Returns the bytes sent.
  Result<std::size_t> send_file(Transport& transport);
  Result<std::size_t> send_bytes(Transport& transport);
  Result<std::size_t> file_ended_early(Segment& segment);
  void sent(std::size_t bytes);
  void drop_front();

  ReplyBuffers& buffers_;
  std::deque<Segment> segments_;
  std::size_t memory_ = 0;
  std::size_t held_ = 0;
  std::uint64_t let_go_ = 0;
};

}  // namespace spate::nbd
