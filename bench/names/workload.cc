// SPDX-License-Identifier: Apache-2.0
#include "names/workload.h"

#include "job/gate.h"

namespace spate::bench {
namespace {

std::string file_in(const std::string& folder, const char* kind, std::uint64_t n) {
  return folder + "/" + kind + std::to_string(n);
}

/// State that the tasks of create_many() share.
struct Creating {
  client::Client& client;
  std::uint64_t left;
  Result<void> first;
};

job::Task<void> create_lane(Creating& creating, Handle folder, std::string prefix) {
  wire::CreateRequest request;
  request.where.start = folder;
  request.attributes.mode = 0644;
  for (std::uint64_t n = 0; creating.left > 0 && creating.first; ++n) {
    --creating.left;
    request.where.path = prefix + std::to_string(n);
    auto made = co_await creating.client.make_node(request);
    if (!made && creating.first) creating.first = std::move(made).error();
  }
}

}  // namespace

job::Task<Result<void>> make_folder(client::Client& client, std::string folder) {
  wire::NewAttributes attributes;
  attributes.mode = 0755;
  SPATE_CO_TRY(std::ignore, co_await client.mkdir(client::path_from_root(folder), attributes));
  co_return Result<void>();
}

job::Task<Result<void>> create_file(client::Client& client, std::string folder, std::uint64_t n) {
  wire::CreateRequest request;
  request.where = client::path_from_root(file_in(folder, "f", n));
  request.attributes.mode = 0644;
  SPATE_CO_TRY(std::ignore, co_await client.make_node(request));
  co_return Result<void>();
}

job::Task<Result<void>> create_open_close(client::Client& client, std::string folder, std::uint64_t n) {
  client::NewObject object;
  object.attributes.mode = 0644;
  const std::uint8_t flags = wire::kOpenRead | wire::kOpenWrite;
  SPATE_CO_TRY(auto file, co_await client.create(client::path_from_root(file_in(folder, "o", n)), flags, object));
  SPATE_CO_TRY(std::ignore, co_await file->close());
  co_return Result<void>();
}

job::Task<Result<void>> stat_file(client::Client& client, std::string folder, std::uint64_t n) {
  SPATE_CO_TRY(std::ignore, co_await client.stat(client::path_from_root(file_in(folder, "f", n))));
  co_return Result<void>();
}

job::Task<Result<void>> unlink_file(client::Client& client, std::string folder, std::uint64_t n) {
  auto gone = co_await client.unlink(client::path_from_root(file_in(folder, "f", n)));
  co_return gone;
}

job::Task<Result<void>> create_many(client::Client& client, Creation creation) {
  wire::NewAttributes attributes;
  attributes.mode = 0755;
  SPATE_CO_TRY(auto top, co_await client.mkdir(client::path_from_root(creation.folder), attributes));
  Creating creating{client, creation.files, {}};
  job::Gate gate(client.cluster().executor());
  for (std::size_t task = 0; task < creation.tasks; ++task) {
    Handle folder = top.handle;
    if (!creation.one_folder) {
      auto made =
          co_await client.mkdir(client::path_from_root(creation.folder + "/" + std::to_string(task)), attributes);
      if (!made) creating.first = std::move(made).error();
      if (!made) break;
      folder = made->handle;
    }
    job::spawn(gate, create_lane(creating, folder, std::to_string(task) + "."));
  }
  co_await gate.close();
  co_return std::move(creating.first);
}

job::Task<Result<std::uint64_t>> list_folder(client::Client& client, std::string folder) {
  SPATE_CO_TRY(auto found, co_await client.lookup(client::path_from_root(folder)));
  wire::ReaddirRequest request;
  request.handle = found.attributes.handle;
  request.attributes = true;
  std::uint64_t seen = 0;
  for (bool end = false; !end;) {
    SPATE_CO_TRY(auto page, co_await client.readdir(request));
    seen += page.entries.size();
    if (!page.entries.empty()) request.cookie = page.entries.back().cookie;
    end = page.end || page.entries.empty();
  }
  co_return seen;
}

}  // namespace spate::bench
