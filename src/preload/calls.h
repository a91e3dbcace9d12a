// SPDX-License-Identifier: Apache-2.0
// The handlers of the system calls, and functions that they share.
#pragma once

#include <optional>
#include <string>

#include "posix/errno.h"
#include "preload/descriptors.h"
#include "preload/front_link.h"

namespace spate::preload {

/// The value that the kernel would return (-errno: an error). Nothing: the kernel makes the call, with the frame as it
/// is then.
using Reply = std::optional<long>;
constexpr Reply kToKernel = std::nullopt;
using Handler = Reply (*)(Frame& frame);

inline Reply refuse(const Error& error) { return minus(posix::to_errno(error.code())); }
template <typename T>
Reply done(const Result<T>& result) {
  return result ? Reply(0) : refuse(result.error());
}
/// done() as a function object.
inline constexpr auto kDone = [](const auto& result) { return done(result); };
inline Reply count(const Result<std::uint64_t>& result) {
  return result ? Reply(static_cast<long>(*result)) : refuse(result.error());
}

/// Typed access to the arguments.
inline int fd(const Frame& frame, int index) { return static_cast<int>(frame.word[index]); }
template <typename T>
T* memory(const Frame& frame, int index) {
  return reinterpret_cast<T*>(frame.word[index]);  // NOLINT(performance-no-int-to-ptr)
}

/// Makes the call with its present arguments. It bypasses the hooks.
inline long ask_kernel(const Frame& f) {
  return raw(f.number, f.word[0], f.word[1], f.word[2], f.word[3], f.word[4], f.word[5]);
}

/// The arguments of a call that form a path: the index of the directory descriptor (-1: the call has none), and the
/// index of the path.
struct PathArguments {
  int directory;
  int path;
};
constexpr PathArguments kPlain{-1, 0};
constexpr PathArguments kAtPath{0, 1};

/// The object that a path names.
struct ResolvedPath {
  Mount* mount = nullptr;  // null: outside of Spate
  posix::PathAt where;
  std::string shown;      // the path as the program sees it, without "." and ".."
  DescriptionRef opened;  // for an empty path: the open file of the descriptor
};

/// Resolves a path of the call. If the path leads out of Spate, replaces the path in the frame if needed, so that the
/// kernel can continue with it. `empty`: an empty path stands for the directory descriptor itself.
Result<ResolvedPath> locate(Frame& frame, PathArguments arguments, bool follow, bool empty = false);
/// Makes a copy of `text` that stays valid when this library has returned and the kernel reads it. It is valid until
/// the thread has made kKeptTexts more copies, or lies in the memory that a helper process shares (helper.h).
const char* keep_text(std::string text);
/// Makes the kernel continue with `path`, an absolute path.
void redirect(Frame& frame, PathArguments arguments, std::string path);
/// Whether the error is that of an absolute link which leads out of the file system. Its context is the link's target
/// and the rest of the path.
bool leads_out(const Error& error);

/// Runs `make(posix::FileSystem&, posix::PathAt)` for the path of a call and returns `reply(result)`.
template <typename Make, typename ReplyOf>
Reply on_path(Frame& frame, PathArguments arguments, bool follow, const Make& make, const ReplyOf& reply) {
  auto place = locate(frame, arguments, follow);
  if (!place) return refuse(place.error());
  if (place->mount == nullptr) return kToKernel;
  auto result = place->mount->run([&](posix::FileSystem& files) { return make(files, place->where); });
  if (!result && leads_out(result.error())) {
    redirect(frame, arguments, result.error().context());
    return kToKernel;
  }
  return reply(result);
}

/// The handler of a call, or null.
Handler handler_of(long number);

// Each group of handlers, by the number of the call; null if the group does not have that call.
Handler open_handler(long number);
Handler data_handler(long number);
Handler name_handler(long number);
Handler attribute_handler(long number);
Handler descriptor_handler(long number);
Handler directory_handler(long number);
Handler memory_handler(long number);
Handler wait_handler(long number);
Handler process_handler(long number);

/// Fills a struct stat, which is the same for the C library and the kernel on x86-64.
void fill_stat(struct stat* out, const Attributes& attributes, Mount& mount);
/// As fill_stat(), for an open file.
Reply stat_description(Description& description, struct stat* out);

/// Copies at most `size` bytes from one descriptor to another in one step, as copy_file_range. Each may belong to Spate
/// or to the kernel. Null offsets: use the descriptors' positions.
Reply copy_between(int in, std::int64_t* in_offset, int out, std::int64_t* out_offset, std::size_t size);

/// read(2) and write(2) with scattered memory. `offset` null: use the position.
Reply read_from(Description& description, std::span<const MutableByteView> memory, const std::uint64_t* offset);
Reply write_to(Description& description, std::span<const ByteView> memory, const std::uint64_t* offset);

}  // namespace spate::preload
