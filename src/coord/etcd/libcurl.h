// SPDX-License-Identifier: Apache-2.0
// Libcurl: libcurl's functions, loaded when they are needed. So a server without a coordinator starts without the two
// dozen libraries that libcurl needs.
#pragma once

#include <curl/curl.h>

#include "base/result.h"

namespace spate::coord {

/// Each member is the function of libcurl whose name is "curl_" and the member's name.
struct Libcurl {
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_global_cleanup) global_cleanup = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_multi_init) multi_init = nullptr;
  decltype(&::curl_multi_cleanup) multi_cleanup = nullptr;
  decltype(&::curl_multi_add_handle) multi_add_handle = nullptr;
  decltype(&::curl_multi_remove_handle) multi_remove_handle = nullptr;
  decltype(&::curl_multi_perform) multi_perform = nullptr;
  decltype(&::curl_multi_poll) multi_poll = nullptr;
  decltype(&::curl_multi_wakeup) multi_wakeup = nullptr;
  decltype(&::curl_multi_info_read) multi_info_read = nullptr;
};

/// Loaded by the first call and kept. Any thread may call it. kNotSupported: it is not on this machine.
const Result<Libcurl>& libcurl();

}  // namespace spate::coord
