// SPDX-License-Identifier: Apache-2.0
// `spate stat`.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "dist/registry.h"
#include "tools/commands.h"
#include "tools/name_space.h"
#include "tools/path_arguments.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

struct StatOptions {
  std::vector<std::string> paths;
  std::string time_style = "iso";
};

nlohmann::json object_json(const wire::ObjectReply& object, const std::string& name) {
  nlohmann::json out = to_json(object.attributes);
  out["path"] = printable(name);
  if (object.layout) out["layout"] = to_json(*object.layout);
  if (!object.target.empty()) out["target"] = printable(object.target);
  return out;
}

std::string object_text(const wire::ObjectReply& object, const std::string& name, const std::string& time_style) {
  const Attributes& a = object.attributes;
  const auto when = [&](WallTime time) { return time_text(time, time_style); };
  std::string text = fmt::format("  path: {}{}\n  type: {}   handle: {}   links: {}\n", printable(name),
                                 object.target.empty() ? "" : " -> " + printable(object.target), type_name(a.type),
                                 a.handle.value, a.link_count);
  text += fmt::format("  size: {} bytes, {} allocated\n  mode: {:04o} ({})   owner: {} ({})   group: {} ({})\n", a.size,
                      human_size(a.allocated_bytes), a.mode, mode_text(a.type, a.mode), a.uid, user_name(a.uid), a.gid,
                      group_name(a.gid));
  text += fmt::format("  modified: {}   changed: {}   read: {}   made: {}\n", when(a.mtime), when(a.ctime),
                      when(a.atime), when(a.btime));
  if (object.layout) {
    text += fmt::format("  layout: {}, strips of {}, over {}\n", describe(object.layout->distribution),
                        human_size(object.layout->strip_bytes), counted(object.layout->slots.size(), "target"));
  }
  return text;
}

int run_stat(Context& context, const StatOptions& options) {
  if (const std::string wrong = check_time_style(options.time_style); !wrong.empty()) return context.usage(wrong);
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  nlohmann::json list = nlohmann::json::array();
  int code = kExitOk;
  std::vector<std::string> paths = options.paths;
  if (!take_remote_paths(context, **process, paths, code)) return code;
  for (const std::string& name : paths) {
    const auto object =
        (*process)->run([&](client::Client& c) { return c.stat(client::path_from_root(remote_path(name), false)); });
    if (!object) {
      code = context.fail(object.error(), name);
    } else if (context.json) {
      list.push_back(object_json(*object, name));
    } else {
      print(object_text(*object, name, options.time_style));
    }
  }
  if (context.json) context.print_json(list);
  return code;
}

}  // namespace

Command make_stat() {
  auto options = std::make_shared<StatOptions>();
  Command command;
  command.name = "stat";
  command.group = "Look";
  command.summary = "show everything that is known about an object";
  command.positionals = {{"PATH", "spate:/...", &options->paths, true}};
  command.options = {time_style_option(&options->time_style, "iso")};
  command.run = [options](Context& context) { return run_stat(context, *options); };
  return command;
}

}  // namespace spate::tools
