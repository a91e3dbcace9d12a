// SPDX-License-Identifier: Apache-2.0
#include "tools/commands.h"

namespace spate::tools {

std::vector<Command> all_commands() {
  std::vector<Command> commands;
  for (auto make : {make_up, make_down, make_init, make_join, make_job, make_restart, make_list, make_status, make_logs,
                    make_ping, make_fsck, make_config, make_server, make_coord, make_key, make_destroy})
    commands.push_back(make());
  for (auto make : {make_ls, make_tree, make_find, make_stat, make_du, make_df, make_sum, make_stats, make_top,
                    make_dashboard, make_bench, make_explain, make_getstripe, make_doctor})
    commands.push_back(make());
  for (auto make : {make_mkdir, make_rmdir, make_rm, make_mv, make_ln, make_touch, make_chmod, make_chown,
                    make_setstripe, make_policy})
    commands.push_back(make());
  for (auto make : {make_cp, make_cat, make_head, make_tail, make_put, make_get}) commands.push_back(make());
  for (auto make : {make_mount, make_umount, make_run, make_check_binary, make_export}) commands.push_back(make());
  for (auto make : {make_help, make_complete, make_manual}) commands.push_back(make());
  return commands;
}

std::vector<Argument> global_options(Context& context) {
  return {
      {"--fs",
       "the file system: its spate.toml, or the folder that has it (SPATE_FS, that of the last `spate up`, /etc/spate)",
       &context.fs},
      {"--json", "print JSON", &context.json},
      {"-q,--quiet", "print errors only", &context.quiet},
      {"--set", "KEY=VALUE: overrides spate.toml (see `spate config explain`)", &context.overrides}};
}

bool global_takes_next_word(std::string_view word) { return word == "--fs" || word == "--set"; }

}  // namespace spate::tools
