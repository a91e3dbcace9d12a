// SPDX-License-Identifier: Apache-2.0
// `spate manual`: writes the manual pages from the texts of `spate help` and `spate config explain`.
#pragma once

#include "tools/roff.h"

namespace spate::tools {

/// The date and version that all pages show.
struct ManualEdition {
  std::string date;
  std::string version;
};
/// spate(1), and spate-NAME(1) for each command that `spate help` shows.
std::vector<ManualPage> command_pages(const ManualEdition& edition);
/// spate.toml(5).
ManualPage configuration_page(const ManualEdition& edition);
/// spate(7): the parts of Spate and how they work together.
ManualPage overview_page(const ManualEdition& edition);

}  // namespace spate::tools
