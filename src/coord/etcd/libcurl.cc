// SPDX-License-Identifier: Apache-2.0
#include "coord/etcd/libcurl.h"

#include <dlfcn.h>

namespace spate::coord {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

Result<Libcurl> load_libcurl() {
  void* const library = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  Libcurl c;
  const bool good =
      library != nullptr && find(library, "curl_global_init", c.global_init) &&
      find(library, "curl_global_cleanup", c.global_cleanup) && find(library, "curl_slist_append", c.slist_append) &&
      find(library, "curl_slist_free_all", c.slist_free_all) && find(library, "curl_easy_init", c.easy_init) &&
      find(library, "curl_easy_cleanup", c.easy_cleanup) && find(library, "curl_easy_setopt", c.easy_setopt) &&
      find(library, "curl_easy_getinfo", c.easy_getinfo) && find(library, "curl_easy_strerror", c.easy_strerror) &&
      find(library, "curl_multi_init", c.multi_init) && find(library, "curl_multi_cleanup", c.multi_cleanup) &&
      find(library, "curl_multi_add_handle", c.multi_add_handle) &&
      find(library, "curl_multi_remove_handle", c.multi_remove_handle) &&
      find(library, "curl_multi_perform", c.multi_perform) && find(library, "curl_multi_poll", c.multi_poll) &&
      find(library, "curl_multi_wakeup", c.multi_wakeup) && find(library, "curl_multi_info_read", c.multi_info_read);
  if (good) return c;
  const char* const why = ::dlerror();
  return Error::told(Errc::kNotSupported,
                     "etcd (meta.coordinator) is asked by libcurl, which cannot be loaded: install " +
                         std::string("libcurl4 (") + (why != nullptr ? why : "it is too old") + ")");
}

}  // namespace

const Result<Libcurl>& libcurl() {
  static const Result<Libcurl> loaded = load_libcurl();
  return loaded;
}

}  // namespace spate::coord
