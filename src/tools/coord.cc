// SPDX-License-Identifier: Apache-2.0
// `spate coord`: the etcd cluster that says which of several meta servers leads.
#include "tools/commands.h"
#include "tools/coord_restore.h"
#include "tools/etcd_members.h"

namespace spate::tools {
namespace {

struct CoordOptions {
  std::string action;
  std::vector<std::string> words;
  std::vector<std::string> without;
};

int run_coord(Context& context, const CoordOptions& options) {
  if (options.action == "run") {
    if (options.words.size() != 2) return context.usage("coord run takes a folder and the name of a member");
    return keep_member(options.words[0], options.words[1]);
  }
  if (options.action == "restore") {
    if (!options.words.empty()) return context.usage("coord restore takes no words");
    return restore_record(context, options.without);
  }
  return context.usage("coord takes restore, not \"" + options.action + "\"");
}

}  // namespace

Command make_coord() {
  auto options = std::make_shared<CoordOptions>();
  Command command;
  command.name = "coord";
  command.group = "Start and stop";
  command.summary = "restore the record in etcd that says which meta server leads";
  command.details =
      "coord restore\n"
      "Recreates the record from the stores of the meta servers, after etcd has lost its data or was restored from\n"
      "an older copy. All meta servers must run, since it asks each of them; --without names one that is gone for\n"
      "good. The server that holds the most leads, and the others receive what they lack. Clients continue. A\n"
      "correct record is not changed. The command needs the server key. (`coord run` is for `spate up`: it keeps a\n"
      "member of etcd running.)";
  command.positionals = {{"ACTION", "restore, or run", &options->action, true, {"restore", "run"}},
                         {"WORD", "run: a folder and the name of a member", &options->words}};
  command.options = {{"--without", "number of a meta server that is gone for good", &options->without}};
  command.run = [options](Context& context) { return run_coord(context, *options); };
  return command;
}

}  // namespace spate::tools
