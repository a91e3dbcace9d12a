// SPDX-License-Identifier: Apache-2.0
// mirror_client SPATE.TOML FOLDER read|write|fsync BYTES SECONDS STREAMS
// Each stream reads or writes its own file FOLDER/N, so many bytes a call, one call after the other, from the beginning
// again after kFileBytes. fsync: each call writes all of a file of BYTES, and syncs it. Prints one line of JSON: calls,
// seconds, the median call and the longest one, us.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "assembly/client_process.h"
#include "job/run_all.h"

namespace spate {
namespace {

constexpr std::uint64_t kFileBytes = 64U << 20U;

struct Work {
  std::string folder;
  bool writes = false;
  bool syncs = false;  // after each write
  std::uint64_t file_bytes = kFileBytes;
  std::uint64_t bytes = 0;
  Duration span{0};
  std::vector<Duration> calls;
};

using FilePtr = std::unique_ptr<client::File>;

job::Task<Result<FilePtr>> open_file(client::Client& client, std::string name) {
  client::NewObject object;
  object.attributes.mode = 0644;
  auto file = co_await client.create(client::path_from_root(name), wire::kOpenRead | wire::kOpenWrite, object);
  co_return file;
}

/// Every byte of the file exists before the time is taken.
job::Task<Result<void>> fill(client::File& file, std::uint64_t size, MutableByteView data) {
  for (std::uint64_t at = 0; at < size; at += data.size()) {
    SPATE_CO_TRY(std::ignore, co_await file.write(at, data));
  }
  co_return Result<void>();
}

job::Task<Result<void>> run_stream(client::Client& client, Work& work, std::size_t number) {
  Bytes memory(1U << 20U, static_cast<std::byte>(number + 1));
  SPATE_CO_TRY(const FilePtr file, co_await open_file(client, work.folder + "/" + std::to_string(number)));
  const std::size_t piece = std::min<std::size_t>(work.file_bytes, memory.size());
  SPATE_CO_TRY(std::ignore, co_await fill(*file, work.file_bytes, MutableByteView(memory).first(piece)));
  const MutableByteView data = MutableByteView(memory).first(work.bytes);
  job::Executor& executor = client.cluster().executor();
  const MonoTime end = executor.now() + work.span;
  for (std::uint64_t at = 0; executor.now() < end; at = (at + work.bytes) % work.file_bytes) {
    const MonoTime begin = executor.now();
    if (work.writes) {
      SPATE_CO_TRY(std::ignore, co_await file->write(at, data));
    } else {
      SPATE_CO_TRY(std::ignore, co_await file->read(at, data));
    }
    if (work.syncs) {
      SPATE_CO_TRY(std::ignore, co_await file->sync());
    }
    work.calls.push_back(executor.now() - begin);
  }
  SPATE_CO_TRY(std::ignore, co_await file->close());
  co_return Result<void>();
}

job::Task<Result<void>> run_streams(client::Client& client, Work& work, std::size_t streams) {
  std::vector<job::Task<Result<void>>> tasks;
  for (std::size_t i = 0; i < streams; ++i) tasks.push_back(run_stream(client, work, i));
  auto done = co_await job::run_all(client.cluster().executor(), std::move(tasks));
  co_return done;
}

Result<Work> run_client(char** argv) {
  assembly::ClientSettings settings;
  settings.config_file = argv[1];
  settings.program = "mirror_client";
  settings.credential = assembly::own_credential();
  SPATE_TRY(const auto process, assembly::ClientProcess::open(settings));
  Work work;
  work.folder = argv[2];
  work.syncs = std::string_view(argv[3]) == "fsync";
  work.writes = work.syncs || std::string_view(argv[3]) == "write";
  work.bytes = std::strtoull(argv[4], nullptr, 10);
  work.span = Duration(static_cast<std::int64_t>(std::atof(argv[5]) * 1e9));
  if (work.bytes == 0 || work.bytes > (1U << 20U)) return Error(Errc::kInvalidArgument, "1 byte to 1 MiB a call");
  if (work.syncs) work.file_bytes = work.bytes;
  const std::size_t streams = std::strtoul(argv[6], nullptr, 10);
  SPATE_TRY(std::ignore, process->run([&](client::Client& client) { return run_streams(client, work, streams); }));
  if (work.calls.empty()) return Error(Errc::kTimeout, "no call has ended");
  return work;
}

double us(Duration span) { return static_cast<double>(span.count()) / 1e3; }

}  // namespace
}  // namespace spate

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "usage: mirror_client SPATE.TOML FOLDER read|write|fsync BYTES SECONDS STREAMS\n");
    return 2;
  }
  auto work = spate::run_client(argv);
  if (!work) {
    std::fprintf(stderr, "mirror_client: %s\n", work.error().message().c_str());
    return 1;
  }
  std::ranges::sort(work->calls);
  std::printf("{\"calls\": %zu, \"seconds\": %.3f, \"median_us\": %.1f, \"longest_us\": %.1f}\n", work->calls.size(),
              spate::us(work->span) / 1e6, spate::us(work->calls[work->calls.size() / 2]),
              spate::us(work->calls.back()));
  return 0;
}
