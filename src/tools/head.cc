// SPDX-License-Identifier: Apache-2.0
// `spate head`, `spate tail`: the first and the last lines or bytes of files.
#include <algorithm>
#include <string>

#include "base/bytes.h"
#include "tools/command.h"
#include "tools/commands.h"
#include "tools/copy.h"
#include "tools/path_arguments.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

constexpr std::uint64_t kBlock = 256U << 10U;
constexpr Duration kFollowPause = std::chrono::milliseconds(500);

struct PartOptions {
  std::vector<std::string> paths;
  std::optional<std::uint64_t> lines;
  std::optional<std::uint64_t> bytes;
  bool follow = false;
};

/// How much to print: lines, unless `bytes` is given.
struct Part {
  std::uint64_t lines = 10;
  std::optional<std::uint64_t> bytes;
  bool follow = false;
};

/// Prints bytes [from, to) of the file, or to its end; yields where it stopped.
job::Task<Result<std::uint64_t>> print_range(client::File& file, std::uint64_t from, std::uint64_t to) {
  Bytes memory(kBlock);
  while (from < to) {
    const std::uint64_t want = std::min<std::uint64_t>(to - from, memory.size());
    SPATE_CO_TRY(const std::uint64_t got, co_await file.read(from, MutableByteView(memory).first(want)));
    if (got == 0) break;
    print(as_text(ByteView(memory).first(got)));
    from += got;
  }
  co_return from;
}

/// The offset just after the first `lines` lines.
job::Task<Result<std::uint64_t>> end_of_lines(client::File& file, std::uint64_t lines) {
  Bytes memory(kBlock);
  std::uint64_t offset = 0;
  while (lines > 0) {
    SPATE_CO_TRY(const std::uint64_t got, co_await file.read(offset, memory));
    if (got == 0) break;
    const std::string_view text = as_text(ByteView(memory).first(got));
    std::size_t at = 0;
    while (lines > 0 && at < text.size()) {
      at = std::min(text.find('\n', at), text.size() - 1) + 1;
      if (text[at - 1] == '\n') --lines;
    }
    offset += at;
  }
  co_return offset;
}

/// The offset of the last `lines` lines in a file of `size` bytes. A line break at the very end ends the last line.
job::Task<Result<std::uint64_t>> begin_of_lines(client::File& file, std::uint64_t size, std::uint64_t lines) {
  Bytes memory(kBlock);
  std::uint64_t found = 0;
  for (std::uint64_t end = size; lines > 0 && end > 0;) {
    const std::uint64_t begin = end - std::min(end, kBlock);
    SPATE_CO_TRY(const std::uint64_t got, co_await file.read(begin, MutableByteView(memory).first(end - begin)));
    for (std::uint64_t i = got; i > 0; --i) {
      if (memory[i - 1] != std::byte{'\n'} || begin + i == size) continue;
      if (++found == lines) co_return begin + i;
    }
    end = begin;
  }
  co_return lines == 0 ? size : 0;
}

job::Task<Result<void>> print_head(client::Client& client, std::string path, Part part) {
  SPATE_CO_TRY(auto file, co_await client.open(client::path_from_root(path), wire::kOpenRead));
  std::uint64_t end = part.bytes.value_or(0);
  if (!part.bytes) {
    SPATE_CO_TRY(end, co_await end_of_lines(*file, part.lines));
  }
  SPATE_CO_TRY(std::ignore, co_await print_range(*file, 0, end));
  SPATE_CO_TRY(std::ignore, co_await file->close());
  co_return Result<void>();
}

/// Prints new data until the program is ended. If the file becomes shorter, starts from its beginning.
job::Task<Result<void>> follow(client::Client& client, client::File& file, std::uint64_t offset) {
  for (;;) {
    std::ignore = co_await client.cluster().executor().sleep(kFollowPause);
    SPATE_CO_TRY(const Attributes now, co_await file.stat());
    if (now.size < offset) offset = 0;
    SPATE_CO_TRY(offset, co_await print_range(file, offset, now.size));
  }
}

job::Task<Result<void>> print_tail(client::Client& client, std::string path, Part part) {
  SPATE_CO_TRY(auto file, co_await client.open(client::path_from_root(path), wire::kOpenRead));
  SPATE_CO_TRY(const Attributes attributes, co_await file->stat());
  std::uint64_t begin = attributes.size - std::min(attributes.size, part.bytes.value_or(0));
  if (!part.bytes) {
    SPATE_CO_TRY(begin, co_await begin_of_lines(*file, attributes.size, part.lines));
  }
  SPATE_CO_TRY(const std::uint64_t end, co_await print_range(*file, begin, UINT64_MAX));
  if (part.follow) {
    SPATE_CO_TRY(std::ignore, co_await follow(client, *file, end));
  }
  SPATE_CO_TRY(std::ignore, co_await file->close());
  co_return Result<void>();
}

int run_each(Context& context, const PartOptions& options,
             job::Task<Result<void>> (*run)(client::Client&, std::string, Part)) {
  if (options.lines && options.bytes) return context.usage("-n and -c exclude each other");
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  int code = kExitOk;
  std::vector<std::string> paths = options.paths;
  if (!take_remote_paths(context, **process, paths, code)) return code;
  if (options.follow && paths.size() > 1) return context.usage("tail -f follows one file");
  const Part part{options.lines.value_or(10), options.bytes, options.follow};
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (paths.size() > 1) print((i == 0 ? "==> " : "\n==> ") + printable(paths[i]) + " <==\n");
    const auto done = (*process)->run([&](client::Client& c) { return run(c, remote_path(paths[i]), part); });
    if (!done) code = context.fail(done.error(), paths[i]);
  }
  return code;
}

Command make(std::string name, std::string summary, const std::shared_ptr<PartOptions>& options,
             job::Task<Result<void>> (*run)(client::Client&, std::string, Part)) {
  Command command;
  command.name = std::move(name);
  command.group = "Copy";
  command.summary = std::move(summary);
  command.positionals = {{"PATH", "spate:/...", &options->paths, true}};
  command.options = {{"-n,--lines", "number of lines (10)", &options->lines},
                     {"-c,--bytes", "number of bytes", &options->bytes}};
  command.run = [options, run](Context& context) { return run_each(context, *options, run); };
  return command;
}

}  // namespace

Command make_head() {
  return make("head", "print the first lines or bytes of files", std::make_shared<PartOptions>(), print_head);
}

Command make_tail() {
  auto options = std::make_shared<PartOptions>();
  Command command = make("tail", "print the last lines or bytes of files", options, print_tail);
  command.options.push_back({"-f,--follow", "then print what is appended, until Ctrl-C", &options->follow});
  return command;
}

}  // namespace spate::tools
