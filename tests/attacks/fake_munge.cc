// SPDX-License-Identifier: Apache-2.0
// A libmunge for tests. A credential is text with the answer of munged about it: "status=0 cipher=4 for=0 uid=1000
// gid=1000 payload=HEX". A negative number means that this libmunge does not know that value.
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

// Numbers of enum munge_opt and enum munge_err.
constexpr int kCipher = 0;
constexpr int kUidRestriction = 9;
constexpr int kUnknown = 1;

struct Context {
  int cipher = 4;
  long restricted_to = -1;
};

}  // namespace

extern "C" {

void* munge_ctx_create() { return new Context; }
void munge_ctx_destroy(void* context) { delete static_cast<Context*>(context); }
const char* munge_ctx_strerror(void* /*context*/) { return "as ordered"; }

int munge_ctx_set(void* context, int option, ...) {
  va_list words;
  va_start(words, option);
  if (option == kUidRestriction) static_cast<Context*>(context)->restricted_to = va_arg(words, uid_t);
  va_end(words);
  return 0;
}

int munge_ctx_get(void* context, int option, ...) {
  const Context& of = *static_cast<Context*>(context);
  va_list words;
  va_start(words, option);
  void* const out = va_arg(words, void*);
  va_end(words);
  if (option == kCipher && of.cipher >= 0) {
    *static_cast<int*>(out) = of.cipher;
    return 0;
  }
  if (option != kUidRestriction || of.restricted_to < 0) return kUnknown;
  *static_cast<uid_t*>(out) = static_cast<uid_t>(of.restricted_to);
  return 0;
}

int munge_encode(char** credential, void* context, const void* payload, int size) {
  const Context& of = *static_cast<Context*>(context);
  std::string text = "status=0 cipher=" + std::to_string(of.cipher) + " for=" + std::to_string(of.restricted_to) +
                     " uid=" + std::to_string(::geteuid()) + " gid=" + std::to_string(::getegid()) + " payload=";
  for (int i = 0; i < size; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<const unsigned char*>(payload)[i]);
    text += digits;
  }
  *credential = ::strdup(text.c_str());
  return 0;
}

int munge_decode(const char* credential, void* context, void** payload, int* size, uid_t* uid, gid_t* gid) {
  Context& of = *static_cast<Context*>(context);
  int status = kUnknown;
  int at = 0;
  std::sscanf(credential, "status=%d cipher=%d for=%ld uid=%u gid=%u payload=%n", &status, &of.cipher,
              &of.restricted_to, uid, gid, &at);
  const std::size_t bytes = std::strlen(credential + at) / 2;
  auto* const out = static_cast<unsigned char*>(std::malloc(bytes + 1));
  for (std::size_t i = 0; i < bytes; ++i) {
    const char digits[3] = {credential[at + 2 * static_cast<int>(i)], credential[at + 2 * static_cast<int>(i) + 1], 0};
    out[i] = static_cast<unsigned char>(std::strtoul(digits, nullptr, 16));
  }
  *payload = out;
  *size = static_cast<int>(bytes);
  return status;
}

}  // extern "C"
