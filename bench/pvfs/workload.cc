// SPDX-License-Identifier: Apache-2.0
#include "pvfs/workload.h"

#include "job/gate.h"

namespace spate::bench {
namespace {

struct Moving {
  client::File& file;
  const Part& part;
  std::uint64_t next = 0;  // bytes of the part
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
