// SPDX-License-Identifier: Apache-2.0
#include "pvfs/workload.h"

#include "datatype/description.h"
#include "job/gate.h"

namespace spate::bench {
namespace {

struct Moving {
  client::File& file;
  const Part& part;
  std::uint64_t next = 0;  // offset in the part, bytes
  Result<void> first;
};

job::Task<void> move_lane(Moving& moving, MutableByteView buffer) {
  while (moving.next < moving.part.bytes && moving.first) {
    const std::uint64_t at = std::exchange(moving.next, moving.next + buffer.size());
    const auto piece =
        buffer.first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), moving.part.bytes - at)));
    if (moving.part.write) {
      auto written = co_await moving.file.write(moving.part.offset + at, piece);
      if (!written && moving.first) moving.first = std::move(written);
      continue;
    }
    auto got = co_await moving.file.read(moving.part.offset + at, piece);
    if (!moving.first) continue;
    if (!got) {
      moving.first = std::move(got).error();
    } else if (*got != piece.size()) {
      moving.first = Error(Errc::kIoError, "a part of the file is missing");
    }
  }
}

}  // namespace

job::Task<Result<void>> move_part(client::File& file, Part part) {
  Moving moving{file, part, 0, {}};
  const auto request = static_cast<std::size_t>(part.request_bytes);
  Buffer memory(part.in_flight * request, Buffer::kPageAlignment);
  std::memset(memory.data(), 0x5a, memory.size());
  job::Gate gate(file.executor());
  for (std::size_t i = 0; i < part.in_flight; ++i)
    job::spawn(gate, move_lane(moving, memory.view().subspan(i * request, request)));
  co_await gate.close();
  co_return std::move(moving.first);
}

std::vector<Extent> btio_pieces(std::uint64_t side, std::uint64_t clients, std::uint64_t client) {
  constexpr std::uint64_t kCellBytes = 40;
  std::uint64_t q = 1;
  while ((q + 1) * (q + 1) <= clients) ++q;
  const auto begin = [&](std::uint64_t block) { return block * side / q; };
  std::vector<Extent> pieces;
  for (std::uint64_t slab = 0; slab < q; ++slab) {
    const std::uint64_t row = (client / q + slab) % q;
    const std::uint64_t column = (client % q + slab) % q;
    const std::uint64_t bytes = (begin(column + 1) - begin(column)) * kCellBytes;
    for (std::uint64_t z = begin(slab); z < begin(slab + 1); ++z) {
      for (std::uint64_t y = begin(row); y < begin(row + 1); ++y)
        pieces.push_back({((z * side + y) * side + begin(column)) * kCellBytes, bytes});
    }
  }
  return pieces;
}

job::Task<Result<void>> move_pieces(client::File& file, std::span<const Extent> pieces, bool write) {
  while (!pieces.empty()) {
    const auto now = pieces.first(std::min(pieces.size(), datatype::kMaxListPieces));
    pieces = pieces.subspan(now.size());
    SPATE_CO_TRY(const auto what, datatype::Description::list(now));
    Buffer memory(static_cast<std::size_t>(what.total_bytes()), Buffer::kPageAlignment);
    std::memset(memory.data(), 0x5a, memory.size());
    const MutableByteView bytes = memory.view();
    if (write) {
      const ByteView from = bytes;
      const std::span<const ByteView> out(&from, 1);
      auto written = co_await file.write_list(what, out);
      if (!written) co_return written;
      continue;
    }
    const std::span<const MutableByteView> in(&bytes, 1);
    SPATE_CO_TRY(auto got, co_await file.read_list(what, in));
    if (got != what.total_bytes()) co_return Error(Errc::kIoError, "a part of the file is missing");
  }
  co_return Result<void>();
}

job::Task<Result<std::unique_ptr<client::File>>> open_shared(client::Client& client, std::string path) {
  client::NewObject object;
  object.attributes.mode = 0666;
  object.layout.strip_bytes = kStripBytes;
  object.layout.slot_count = 0;
  const std::uint8_t flags = wire::kOpenRead | wire::kOpenWrite;
  auto file = co_await client.create(client::path_from_root(path), flags, object);
  co_return file;
}

}  // namespace spate::bench
