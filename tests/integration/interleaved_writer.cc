// SPDX-License-Identifier: Apache-2.0
// interleaved_writer SPATE.TOML PATH SEED WRITERS WHO BYTES
// Cuts the file at random into pieces of 1 byte to 1 MiB, and assigns each to one of the writers. Writer WHO writes its
// pieces, several at once, in its own order. WHO = WRITERS: reads the file and compares every byte.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "assembly/client_process.h"
#include "base/random.h"
#include "job/gate.h"

namespace spate {
namespace {

constexpr std::uint64_t kLargest = std::uint64_t{1} << 20U;
constexpr std::size_t kAtOnce = 6;

struct Piece {
  std::uint64_t offset;
  std::uint64_t size;
  std::uint64_t writer;
};

struct Plan {
  std::string path;
  std::uint64_t seed = 0;
  std::uint64_t writers = 1;
  std::uint64_t who = 0;
  std::uint64_t bytes = 0;
};

/// Small pieces are as frequent as large ones, so that neighbours share blocks, pages and strips.
std::vector<Piece> cut(const Plan& plan) {
  SeededRandom random(plan.seed);
  std::vector<Piece> pieces;
  for (std::uint64_t at = 0; at < plan.bytes;) {
    const std::uint64_t most = std::min(kLargest, std::uint64_t{1} << (random.next() % 21));
    const std::uint64_t size = std::min(1 + random.next() % most, plan.bytes - at);
    pieces.push_back({at, size, random.next() % plan.writers});
    at += size;
  }
  return pieces;
}

std::byte content(const Plan& plan, std::uint64_t offset, std::uint64_t writer) {
  std::uint64_t x = (offset / 8 + 1) * 0x9E3779B97F4A7C15ULL ^ plan.seed * 0xBF58476D1CE4E5B9ULL ^
                    (writer + 1) * 0x94D049BB133111EBULL;
  x ^= x >> 31U;
  return static_cast<std::byte>(x >> (8 * (offset % 8)));
}

void fill(const Plan& plan, const Piece& piece, Bytes& memory) {
  memory.resize(piece.size);
  for (std::uint64_t i = 0; i < piece.size; ++i) memory[i] = content(plan, piece.offset + i, piece.writer);
}

struct Work {
  const Plan& plan;
  client::File& file;
  const std::vector<Piece>& pieces;
  std::size_t next = 0;
  Result<void> first;
};

job::Task<void> write_some(Work& work) {
  Bytes memory;
  while (work.next < work.pieces.size() && work.first) {
    const Piece piece = work.pieces[work.next++];
    fill(work.plan, piece, memory);
    auto written = co_await work.file.write(piece.offset, memory);
    if (!written && work.first) work.first = std::move(written).error();
  }
}

job::Task<Result<void>> write_all(client::Client& client, const Plan& plan, const std::vector<Piece>& pieces) {
  SPATE_CO_TRY(auto file, co_await client.open(client::path_from_root(plan.path), wire::kOpenWrite));
  Work work{plan, *file, pieces, 0, {}};
  job::Gate gate(client.cluster().executor());
  for (std::size_t i = 0; i < kAtOnce; ++i) job::spawn(gate, write_some(work));
  co_await gate.close();
  auto closed = co_await file->close();
  if (work.first && !closed) work.first = std::move(closed).error();
  co_return work.first;
}

job::Task<Result<void>> compare(client::Client& client, const Plan& plan, const std::vector<Piece>& pieces) {
  SPATE_CO_TRY(auto file, co_await client.open(client::path_from_root(plan.path), wire::kOpenRead));
  Bytes all(plan.bytes + 1);
  SPATE_CO_TRY(const std::uint64_t got, co_await file->read(0, all));
  if (got != plan.bytes) co_return Error(Errc::kCorrupt, "the file has " + std::to_string(got) + " bytes");
  Bytes expected;
  for (const Piece& piece : pieces) {
    fill(plan, piece, expected);
    const auto wrong =
        std::mismatch(expected.begin(), expected.end(), all.begin() + static_cast<std::ptrdiff_t>(piece.offset)).first;
    if (wrong == expected.end()) continue;
    co_return Error(Errc::kCorrupt,
                    "byte " + std::to_string(piece.offset + static_cast<std::uint64_t>(wrong - expected.begin())) +
                        " of the piece at " + std::to_string(piece.offset) + ", " + std::to_string(piece.size) +
                        " bytes, of writer " + std::to_string(piece.writer));
  }
  SPATE_CO_TRY(std::ignore, co_await file->close());
  co_return Result<void>();
}

Result<void> run(const std::string& config, const Plan& plan) {
  assembly::ClientSettings settings;
  settings.config_file = config;
  settings.program = "interleaved_writer";
  settings.credential = assembly::own_credential();
  SPATE_TRY(const auto process, assembly::ClientProcess::open(settings));
  std::vector<Piece> pieces = cut(plan);
  if (plan.who == plan.writers) {
    return process->run([&](client::Client& client) { return compare(client, plan, pieces); });
  }
  std::erase_if(pieces, [&plan](const Piece& piece) { return piece.writer != plan.who; });
  SeededRandom random(plan.seed * 31 + plan.who);
  for (std::size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[random.next() % i]);
  return process->run([&](client::Client& client) { return write_all(client, plan, pieces); });
}

}  // namespace
}  // namespace spate

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "usage: interleaved_writer SPATE.TOML PATH SEED WRITERS WHO BYTES\n");
    return 2;
  }
  const auto number = [argv](int i) { return std::strtoull(argv[i], nullptr, 10); };
  const spate::Plan plan{argv[2], number(3), number(4), number(5), number(6)};
  const auto done = spate::run(argv[1], plan);
  if (!done) std::fprintf(stderr, "interleaved_writer: %s\n", done.error().message().c_str());
  return done ? 0 : 1;
}
