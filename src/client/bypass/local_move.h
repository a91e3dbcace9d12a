// SPDX-License-Identifier: Apache-2.0
// LocalMove: moves one slot's share of a read or write directly between the caller's memory and the datafile.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "datatype/description.h"
#include "datatype/memory_map.h"
#include "dist/distribution.h"

namespace spate::client {

/// The datafile of a LocalMove.
class LocalIo {
 public:
  virtual ~LocalIo() = default;
  struct Pieces {
    const iovec* first = nullptr;
    int count = 0;             // 1 to 512
    std::uint64_t offset = 0;  // in the datafile
  };
  /// As preadv and pwritev, but a failure is a negative errno. Without `wait` the call returns -EAGAIN if it would wait
  /// for a device.
  virtual ssize_t move_pieces(const Pieces& pieces, bool is_write, bool wait) = 0;
};

/// One slot's share of a transfer. It outlives its LocalMove.
struct SlotWork {
  const datatype::Description& what;
  const Distribution& distribution;
  const datatype::MemoryMap& memory;
  std::uint32_t slot = 0;
  bool is_write = false;
};

/// Moves one share. Call try_now(). If that does not complete the move, call finish() on a thread that may wait. Only
/// for ordered descriptions.
class LocalMove {
 public:
  explicit LocalMove(const SlotWork& work);

  /// Moves what it can without waiting for a device; nothing of a share over 4 MiB. True: the move is complete.
  bool try_now(LocalIo& io);
  void finish(LocalIo& io) { go_on(io, true); }

  bool is_write() const { return is_write_; }

  /// kOk also for a read that stops at the end of the datafile.
  Errc status() const { return status_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Run {  // a part of the share that is contiguous in the datafile
    std::uint64_t offset = 0;
    std::size_t first = 0;  // index in pieces_ of the run's first element
    std::size_t count = 0;
  };
  bool go_on(LocalIo& io, bool wait);
  bool step(LocalIo& io, bool wait);

  const bool is_write_;
  std::vector<iovec> pieces_;
  std::vector<Run> runs_;
  std::size_t at_ = 0;  // index of the current run
  Errc status_ = Errc::kOk;
  std::uint64_t bytes_ = 0;
};

}  // namespace spate::client
