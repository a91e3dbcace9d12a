// SPDX-License-Identifier: Apache-2.0
// The files of src/tools/dashboard/, as CMake has written them into dashboard_files.h.
#include <algorithm>
#include <array>

#include "tools/dashboard_site.h"

namespace spate::tools {
namespace {

#include <dashboard_files.h>  // made by CMake

constexpr std::array<PageFile, 5> kPageFiles = {{
    {"/", "text/html; charset=utf-8", k_dashboard_html},
    {"/dashboard.css", "text/css; charset=utf-8", k_dashboard_css},
    {"/dashboard.js", "text/javascript; charset=utf-8", k_dashboard_js},
    {"/charts.js", "text/javascript; charset=utf-8", k_charts_js},
    {"/layout.js", "text/javascript; charset=utf-8", k_layout_js},
}};

}  // namespace

const PageFile* find_page_file(std::string_view path) {
  const auto found = std::ranges::find(kPageFiles, path, &PageFile::path);
  return found == kPageFiles.end() ? nullptr : &*found;
}

}  // namespace spate::tools
