// SPDX-License-Identifier: Apache-2.0
// The subcommands of `spate`. Each function is in the .cc file that carries the command out; commands.cc gives their
// order on the help page.
#pragma once

#include "tools/command.h"

namespace spate::tools {

Command make_up();
Command make_down();
Command make_init();
Command make_join();
Command make_job();
Command make_restart();
Command make_list();
Command make_status();
Command make_logs();
Command make_ping();
Command make_fsck();
Command make_config();
Command make_server();
Command make_coord();
Command make_key();
Command make_destroy();

Command make_ls();
Command make_tree();
Command make_find();
Command make_stat();
Command make_du();
Command make_df();
Command make_sum();
Command make_stats();
Command make_top();
Command make_dashboard();
Command make_bench();
Command make_explain();
Command make_getstripe();
Command make_doctor();

Command make_mkdir();
Command make_rmdir();
Command make_rm();
Command make_mv();
Command make_ln();
Command make_touch();
Command make_chmod();
Command make_chown();
Command make_setstripe();
Command make_policy();

Command make_cp();
Command make_cat();
Command make_head();
Command make_tail();
Command make_put();
Command make_get();

Command make_mount();
Command make_umount();
Command make_run();
Command make_check_binary();
Command make_export();

/// Only for the help page: cli.cc turns `spate help NAME` into `spate NAME --help`.
Command make_help();
/// Hidden; called by the shells' own files: spate.bash, spate.zsh, spate.fish.
Command make_complete();
/// Hidden; called when Spate is installed.
Command make_manual();

}  // namespace spate::tools
