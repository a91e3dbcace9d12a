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
  /// As preadv and pwritev; a failure is a negative errno. Without `wait` it returns -EAGAIN when it would wait for a
  /// device.
  virtual ssize_t move_pieces(const Pieces& pieces, bool is_write, bool wait) = 0;
};

/// One slot's share of a transfer. It outlives the move.
struct SlotWork {
  const datatype::Description& what;
  const Distribution& distribution;
  const datatype::MemoryMap& memory;
  std::uint32_t slot = 0;
  bool is_write = false;
};

/// Moves one share. Call try_now() and, if that does not complete it, finish() on a thread that may wait. Only for
/// ordered descriptions.
class LocalMove {
 public:
  explicit LocalMove(const SlotWork& work);

  /// Moves as much as is possible without waiting for a device. True: the move is complete.
  bool try_now(LocalIo& io);
  void finish(LocalIo& io) { go_on(io, true); }

  bool is_write() const { return is_write_; }

  /// Reads stop at the datafile's end, with success.
  Errc status() const { return status_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Run {  // contiguous in the datafile
    std::uint64_t offset = 0;
    std::size_t first = 0;  // index of its first element in pieces_
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
