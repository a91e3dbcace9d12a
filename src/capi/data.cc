// SPDX-License-Identifier: Apache-2.0
// Reads and writes: at an offset, at the position, lists and strides.
#include <cerrno>
#include <variant>

#include "capi/handles.h"
#include "datatype/memory_map.h"

namespace spate::capi {
namespace {

using posix::OpenFile;
using Description = datatype::Description;

/// The part of the file: its position, an offset, or descriptions whose streams follow one another.
struct AtPosition {};
using FilePosition = std::variant<AtPosition, std::uint64_t, std::vector<Description>>;

struct ReadCall {
  spate_file* file = nullptr;
  FilePosition place;
  std::vector<MutableByteView> memory;
};
struct WriteCall {
  spate_file* file = nullptr;
  FilePosition place;
  std::vector<ByteView> memory;
};

job::Task<Result<std::uint64_t>> transfer(OpenFile& file, const Description& what,
                                          const std::vector<MutableByteView>& memory) {
  return file.read_list(what, memory);
}
job::Task<Result<std::uint64_t>> transfer(OpenFile& file, const Description& what,
                                          const std::vector<ByteView>& memory) {
  return file.write_list(what, memory);
}

/// Transfers one description after the other. A read ends with the first one that the end of the file cuts off.
template <typename View>
job::Task<Result<std::uint64_t>> transfer_all(OpenFile& file, const std::vector<Description>& parts,
                                              const std::vector<View>& memory) {
  if (parts.size() == 1) {
    auto done = co_await transfer(file, parts.front(), memory);
    co_return done;
  }
  const datatype::BasicMemoryMap<View> map(memory);
  std::uint64_t total = 0;
  for (const Description& part : parts) total += part.total_bytes();
  if (map.total_bytes() != total) co_return Error(Errc::kInvalidArgument, "memory and ranges differ in size");
  std::uint64_t sum = 0;
  for (const Description& part : parts) {
    std::vector<View> piece;
    map.append(sum, part.total_bytes(), piece);
    SPATE_CO_TRY(const std::uint64_t done, co_await transfer(file, part, piece));
    sum += done;
    if (done < part.total_bytes()) break;
  }
  co_return sum;
}

/// `call` outlives the task.
Work work_of(const ReadCall& call) {
  OpenFile& file = *call.file->file;
  Result<std::uint64_t> got = std::uint64_t{0};
  if (const auto* offset = std::get_if<std::uint64_t>(&call.place)) {
    got = co_await file.pread(*offset, call.memory);
  } else if (const auto* parts = std::get_if<std::vector<Description>>(&call.place)) {
    got = co_await transfer_all(file, *parts, call.memory);
  } else {
    got = co_await file.read(call.memory);
  }
  if (!got) co_return std::move(got).error();
  co_return static_cast<std::int64_t>(*got);
}

Work work_of(const WriteCall& call) {
  OpenFile& file = *call.file->file;
  Result<std::uint64_t> put = std::uint64_t{0};
  if (const auto* offset = std::get_if<std::uint64_t>(&call.place)) {
    put = co_await file.pwrite(*offset, call.memory);
  } else if (const auto* parts = std::get_if<std::vector<Description>>(&call.place)) {
    put = co_await transfer_all(file, *parts, call.memory);
  } else {
    put = co_await file.write(call.memory);
  }
  if (!put) co_return std::move(put).error();
  co_return static_cast<std::int64_t>(*put);
}

/// Checks an offset from the caller.
Result<FilePosition> place_of(off_t offset) {
  if (offset < 0) return Error(Errc::kInvalidArgument, "a negative offset");
  return FilePosition(static_cast<std::uint64_t>(offset));
}

Result<FilePosition> place_of(Result<std::vector<Description>> parts) {
  if (!parts) return std::move(parts).error();
  return FilePosition(*std::move(parts));
}

Result<FilePosition> place_of(Result<Description> what) {
  if (!what) return std::move(what).error();
  std::vector<Description> parts;
  parts.push_back(*std::move(what));
  return FilePosition(std::move(parts));
}

template <typename Call>
using ViewsOf = decltype(Call::memory);

template <typename Call>
ssize_t run(spate_file* file, Result<FilePosition> place, Result<ViewsOf<Call>> views) {
  if (file == nullptr) return refuse_null("file");
  if (!views) return refuse(views.error());
  if (!place) return refuse(place.error());
  const Call call{file, *std::move(place), *std::move(views)};
  return now(file, [&call] { return work_of(call); });
}

template <typename Call>
ssize_t run(spate_file* file, Result<FilePosition> place, const iovec* memory, int count) {
  return run<Call>(file, std::move(place), memory_of<typename ViewsOf<Call>::value_type>(memory, count));
}

template <typename Call>
int start(spate_file* file, Result<FilePosition> place, Result<ViewsOf<Call>> views, spate_op** op) {
  if (op == nullptr) return refuse_null("op");
  *op = nullptr;
  if (file == nullptr) return refuse_null("file");
  if (!views) return refuse(views.error());
  if (!place) return refuse(place.error());
  // On the heap, so that it does not move while the task refers to it.
  auto call = std::make_shared<const Call>(Call{file, *std::move(place), *std::move(views)});
  return later(file, [call = std::move(call)] { return work_of(*call); }, op);
}

template <typename Call>
int start(spate_file* file, Result<FilePosition> place, const iovec* memory, int count, spate_op** op) {
  return start<Call>(file, std::move(place), memory_of<typename ViewsOf<Call>::value_type>(memory, count), op);
}

/// Transfers a window of a file's pattern, to or from memory that has a pattern, too.
template <typename Call>
ssize_t run_shaped(spate_file* file, const spate_window* what, void* base, const spate_strided* memory) {
  if (what == nullptr) return refuse_null("window");
  return run<Call>(file, place_of(window_of(&what->pattern, {what->first, what->size})),
                   memory_of<typename ViewsOf<Call>::value_type>(base, memory, what->size));
}

template <typename Call>
int start_shaped(spate_file* file, const spate_window* what, void* base, const spate_strided* memory, spate_op** op) {
  if (what == nullptr) return refuse_null("window");
  return start<Call>(file, place_of(window_of(&what->pattern, {what->first, what->size})),
                     memory_of<typename ViewsOf<Call>::value_type>(base, memory, what->size), op);
}

iovec one_piece(const void* buffer, std::size_t size) { return {const_cast<void*>(buffer), size}; }

}  // namespace
}  // namespace spate::capi

using namespace spate::capi;

extern "C" {

ssize_t spate_pread(spate_file* file, void* buffer, size_t size, off_t offset) {
  const iovec memory = one_piece(buffer, size);
  return run<ReadCall>(file, place_of(offset), &memory, 1);
}

ssize_t spate_pwrite(spate_file* file, const void* buffer, size_t size, off_t offset) {
  const iovec memory = one_piece(buffer, size);
  return run<WriteCall>(file, place_of(offset), &memory, 1);
}

ssize_t spate_preadv(spate_file* file, const struct iovec* memory, int count, off_t offset) {
  return run<ReadCall>(file, place_of(offset), memory, count);
}

ssize_t spate_pwritev(spate_file* file, const struct iovec* memory, int count, off_t offset) {
  return run<WriteCall>(file, place_of(offset), memory, count);
}

ssize_t spate_read(spate_file* file, void* buffer, size_t size) {
  const iovec memory = one_piece(buffer, size);
  return run<ReadCall>(file, FilePosition(), &memory, 1);
}

ssize_t spate_write(spate_file* file, const void* buffer, size_t size) {
  const iovec memory = one_piece(buffer, size);
  return run<WriteCall>(file, FilePosition(), &memory, 1);
}

ssize_t spate_readv(spate_file* file, const struct iovec* memory, int count) {
  return run<ReadCall>(file, FilePosition(), memory, count);
}

ssize_t spate_writev(spate_file* file, const struct iovec* memory, int count) {
  return run<WriteCall>(file, FilePosition(), memory, count);
}

ssize_t spate_read_list(spate_file* file, const struct spate_range* ranges, size_t range_count,
                        const struct iovec* memory, int memory_count) {
  return run<ReadCall>(file, place_of(description_of(ranges, range_count)), memory, memory_count);
}

ssize_t spate_write_list(spate_file* file, const struct spate_range* ranges, size_t range_count,
                         const struct iovec* memory, int memory_count) {
  return run<WriteCall>(file, place_of(description_of(ranges, range_count)), memory, memory_count);
}

ssize_t spate_read_strided(spate_file* file, const struct spate_strided* what, const struct iovec* memory,
                           int memory_count) {
  return run<ReadCall>(file, place_of(description_of(what)), memory, memory_count);
}

ssize_t spate_write_strided(spate_file* file, const struct spate_strided* what, const struct iovec* memory,
                            int memory_count) {
  return run<WriteCall>(file, place_of(description_of(what)), memory, memory_count);
}

ssize_t spate_read_window(spate_file* file, const struct spate_strided* what, uint64_t first, uint64_t size,
                          const struct iovec* memory, int memory_count) {
  return run<ReadCall>(file, place_of(window_of(what, {first, size})), memory, memory_count);
}

ssize_t spate_write_window(spate_file* file, const struct spate_strided* what, uint64_t first, uint64_t size,
                           const struct iovec* memory, int memory_count) {
  return run<WriteCall>(file, place_of(window_of(what, {first, size})), memory, memory_count);
}

ssize_t spate_read_shaped(spate_file* file, const struct spate_window* what, void* base,
                          const struct spate_strided* memory) {
  return run_shaped<ReadCall>(file, what, base, memory);
}

ssize_t spate_write_shaped(spate_file* file, const struct spate_window* what, const void* base,
                           const struct spate_strided* memory) {
  return run_shaped<WriteCall>(file, what, const_cast<void*>(base), memory);
}

int spate_read_shaped_start(spate_file* file, const struct spate_window* what, void* base,
                            const struct spate_strided* memory, spate_op** op) {
  return start_shaped<ReadCall>(file, what, base, memory, op);
}

int spate_write_shaped_start(spate_file* file, const struct spate_window* what, const void* base,
                             const struct spate_strided* memory, spate_op** op) {
  return start_shaped<WriteCall>(file, what, const_cast<void*>(base), memory, op);
}

int spate_pread_start(spate_file* file, void* buffer, size_t size, off_t offset, spate_op** op) {
  const iovec memory = one_piece(buffer, size);
  return start<ReadCall>(file, place_of(offset), &memory, 1, op);
}

int spate_pwrite_start(spate_file* file, const void* buffer, size_t size, off_t offset, spate_op** op) {
  const iovec memory = one_piece(buffer, size);
  return start<WriteCall>(file, place_of(offset), &memory, 1, op);
}

int spate_preadv_start(spate_file* file, const struct iovec* memory, int count, off_t offset, spate_op** op) {
  return start<ReadCall>(file, place_of(offset), memory, count, op);
}

int spate_pwritev_start(spate_file* file, const struct iovec* memory, int count, off_t offset, spate_op** op) {
  return start<WriteCall>(file, place_of(offset), memory, count, op);
}

int spate_read_list_start(spate_file* file, const struct spate_range* ranges, size_t range_count,
                          const struct iovec* memory, int memory_count, spate_op** op) {
  return start<ReadCall>(file, place_of(description_of(ranges, range_count)), memory, memory_count, op);
}

int spate_write_list_start(spate_file* file, const struct spate_range* ranges, size_t range_count,
                           const struct iovec* memory, int memory_count, spate_op** op) {
  return start<WriteCall>(file, place_of(description_of(ranges, range_count)), memory, memory_count, op);
}

int spate_read_strided_start(spate_file* file, const struct spate_strided* what, const struct iovec* memory,
                             int memory_count, spate_op** op) {
  return start<ReadCall>(file, place_of(description_of(what)), memory, memory_count, op);
}

int spate_write_strided_start(spate_file* file, const struct spate_strided* what, const struct iovec* memory,
                              int memory_count, spate_op** op) {
  return start<WriteCall>(file, place_of(description_of(what)), memory, memory_count, op);
}

int spate_read_window_start(spate_file* file, const struct spate_strided* what, uint64_t first, uint64_t size,
                            const struct iovec* memory, int memory_count, spate_op** op) {
  return start<ReadCall>(file, place_of(window_of(what, {first, size})), memory, memory_count, op);
}

int spate_write_window_start(spate_file* file, const struct spate_strided* what, uint64_t first, uint64_t size,
                             const struct iovec* memory, int memory_count, spate_op** op) {
  return start<WriteCall>(file, place_of(window_of(what, {first, size})), memory, memory_count, op);
}

}  // extern "C"
