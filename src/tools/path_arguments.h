// SPDX-License-Identifier: Apache-2.0
// The paths that the words of a command line name, also by patterns.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/context.h"

namespace spate::tools {

/// The words with each pattern ("spate:/p*", "spate:/[ab]/?") replaced by the paths it matches, in the order of their
/// names. The rules are the shell's, for those who quote a pattern or have no matching local file:
/// - `*`, `?` and `[...]` match within one name, a dot at its beginning only by a dot; a backslash makes them ordinary.
/// - A name that exists and has such characters is no pattern: it names itself.
/// - A pattern that matches nothing, and every word that does not begin with "spate:", stays as it is.
/// Fails only when a server does not answer.
Result<std::vector<std::string>> expand_patterns(assembly::ClientProcess& process,
                                                 const std::vector<std::string>& words);

/// expand_patterns() for paths that must all be in the file system. If one is not, or the expansion fails, prints the
/// message and sets `code` to the exit code. True: `paths` holds the expanded paths.
bool take_remote_paths(Context& context, assembly::ClientProcess& process, std::vector<std::string>& paths, int& code);

/// Takes the paths as take_remote_paths() does, and calls `act` for each with `name`, the word, and `path`, the path in
/// the file system. If that fails, prints the message with the name and goes on with the next path. Returns the exit
/// code.
int for_each_remote_path(Context& context, std::vector<std::string> paths,
                         const std::function<Result<void>(assembly::ClientProcess& process, const std::string& name,
                                                          const std::string& path)>& act);

/// Turns a path below a mount of Spate into the path in the file system that is mounted there, by the kernel's table of
/// mounts; sets --fs to that file system, if it is not given. Any other path stays as it is.
Result<std::string> mounted_path(Context& context, const std::string& path);

}  // namespace spate::tools
