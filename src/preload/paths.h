// SPDX-License-Identifier: Apache-2.0
// Functions on paths as text. They ask no file system.
#pragma once

#include <string>
#include <string_view>

namespace spate::preload {

/// An absolute path without empty, "." and ".." components, and without a '/' at the end unless it is "/".
std::string straighten(std::string_view path);

/// Returns true only if straighten() would change nothing. It may return false for a straight path, too, if a component
/// begins with a dot.
bool is_straight(std::string_view path);

/// The number of components of a path.
std::size_t depth_of(std::string_view path);

/// Whether `path`, walked from a directory `depth` components below the root, would leave the root by "..".
bool climbs_out(std::string_view path, std::size_t depth);

/// Whether `path` is `prefix` or lies below it.
bool is_below(std::string_view path, std::string_view prefix);

/// The descriptor that /proc/self/fd/N, /proc/PID/fd/N, /dev/fd/N or /dev/std{in,out,err} stands for, or -1.
int named_descriptor(std::string_view path, long own_pid);

}  // namespace spate::preload
