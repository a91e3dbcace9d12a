// SPDX-License-Identifier: Apache-2.0
#include "seals/operations.h"

#include "measure/cpu.h"

namespace spate::bench {
namespace {

constexpr std::size_t kFileBytes = std::size_t{1} << 20U;
constexpr std::uint8_t kOpenBoth = wire::kOpenRead | wire::kOpenWrite;
const std::string kFile = "/seals/file";

wire::NewAttributes with_mode(std::uint32_t mode) {
  wire::NewAttributes attributes;
  attributes.mode = mode;
  return attributes;
}

job::Task<Result<std::unique_ptr<client::File>>> make_file(client::Client& client) {
  SPATE_CO_TRY(std::ignore, co_await client.mkdir(client::path_from_root("/seals"), with_mode(0755)));
  client::NewObject object;
  object.attributes = with_mode(0644);
  SPATE_CO_TRY(auto file, co_await client.create(client::path_from_root(kFile), kOpenBoth, object));
  const Bytes bytes(kFileBytes);
  SPATE_CO_TRY(std::ignore, co_await file->write(0, bytes));
  co_return std::move(file);
}

job::Task<Result<void>> stat_one(client::Client& client) {
  SPATE_CO_TRY(std::ignore, co_await client.stat(client::path_from_root(kFile)));
  co_return Result<void>();
}

job::Task<Result<void>> read_one(client::File& file, MutableByteView into) {
  SPATE_CO_TRY(auto got, co_await file.read(0, into));
  if (got != into.size()) co_return Errc::kCorrupt;
  co_return Result<void>();
}

job::Task<Result<void>> create_one(client::Client& client) {
  wire::CreateRequest request;
  request.where = client::path_from_root("/seals/other");
  request.attributes = with_mode(0644);
  SPATE_CO_TRY(std::ignore, co_await client.make_node(request));
  auto gone = co_await client.unlink(request.where);
  co_return gone;
}

}  // namespace

Result<std::unique_ptr<Operations>> Operations::open(const std::string& config_file, std::vector<pid_t> servers) {
  assembly::ClientSettings settings;
  settings.config_file = config_file;
  settings.program = "seals_program";
  settings.credential = assembly::own_credential();
  settings.background_thread = false;
  SPATE_TRY(auto process, assembly::ClientProcess::open(settings));
  std::unique_ptr<Operations> made(new Operations(std::move(process), std::move(servers)));
  SPATE_TRY(made->file_, made->process_->run(make_file));
  return made;
}

template <typename Make>
Result<void> Operations::repeat(std::uint64_t count, Make make) {
  for (std::uint64_t i = 0; i < count; ++i) {
    SPATE_TRY(std::ignore, process_->run(make));
  }
  return {};
}

Result<void> Operations::stat(std::uint64_t count) { return repeat(count, stat_one); }

Result<void> Operations::read(std::uint64_t count, std::size_t bytes) {
  Bytes memory(bytes);
  return repeat(count, [this, &memory](client::Client&) { return read_one(*file_, memory); });
}

Result<void> Operations::write(std::uint64_t count, std::size_t bytes) {
  const Bytes memory(bytes);
  return repeat(count, [this, &memory](client::Client&) { return file_->write(0, memory); });
}

Result<void> Operations::create(std::uint64_t count) { return repeat(count, create_one); }

Result<double> Operations::cpu_seconds() const {
  SPATE_TRY(double all, measure::cpu_seconds(0));
  for (const pid_t server : servers_) {
    SPATE_TRY(const double one, measure::cpu_seconds(server));
    all += one;
  }
  return all;
}

}  // namespace spate::bench
