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
  command.summary = "restore etcd's record of who leads the meta servers";
  command.details =
      "coord restore\n"
      "Makes the record anew from what the meta servers hold, after etcd has lost its data or was restored from an "
      "older\n"
      "copy. It asks all meta servers, so all of them must run; --without names one that is gone for good. The one "
      "that\n"
      "holds the most leads, and the others receive what they lack. Clients go on. Where the record is right, nothing "
      "is\n"
      "changed. It takes the server key. (`coord run` is for `spate up`: it keeps a member of etcd running.)";
  command.positionals = {{"ACTION", "restore, or run", &options->action, true, {"restore", "run"}},
                         {"WORD", "of run: a folder and the name of a member", &options->words}};
  command.options = {{"--without", "number of a meta server that is gone for good", &options->without}};
  command.run = [options](Context& context) { return run_coord(context, *options); };
  return command;
}

}  // namespace spate::tools
