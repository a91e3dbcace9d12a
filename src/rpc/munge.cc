// SPDX-License-Identifier: Apache-2.0
#include "rpc/munge.h"

#include <dlfcn.h>
#include <grp.h>
#include <pwd.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/codec.h"
#include "base/random.h"

namespace spate::rpc {
namespace {

/// The part of <munge.h> (libmunge 0.5) that is used. The library need not be there to build.
struct Libmunge {
  using Context = void*;
  Context (*ctx_create)() = nullptr;
  void (*ctx_destroy)(Context) = nullptr;
  int (*ctx_set)(Context, int, ...) = nullptr;
  int (*ctx_get)(Context, int, ...) = nullptr;
  const char* (*ctx_strerror)(Context) = nullptr;
  int (*encode)(char** credential, Context, const void* payload, int size) = nullptr;
  int (*decode)(const char* credential, Context, void** payload, int* size, uid_t*, gid_t*) = nullptr;
};

// enum munge_opt, munge_err and munge_cipher.
enum Option : int { kCipher = 0, kSocket = 8, kUidRestriction = 9 };
enum Status : int { kSuccess = 0, kSocketError = 6, kTimeout = 7 };
constexpr int kNoCipher = 0;

constexpr std::string_view kPurpose = "spate munge 1";
constexpr std::size_t kPayloadBytes = kPurpose.size() + sizeof(std::uint64_t) + sizeof(std::uint32_t) + sizeof(Key);
constexpr std::size_t kMostCredentialBytes = 4096;

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

Result<Libmunge> load_libmunge() {
  void* const library = ::dlopen("libmunge.so.2", RTLD_NOW | RTLD_LOCAL);
  Libmunge m;
  const bool good = library != nullptr && find(library, "munge_ctx_create", m.ctx_create) &&
                    find(library, "munge_ctx_destroy", m.ctx_destroy) && find(library, "munge_ctx_set", m.ctx_set) &&
                    find(library, "munge_ctx_get", m.ctx_get) && find(library, "munge_ctx_strerror", m.ctx_strerror) &&
                    find(library, "munge_encode", m.encode) && find(library, "munge_decode", m.decode);
  if (good) return m;
  const char* const why = ::dlerror();
  return Error::told(Errc::kNotSupported, "auth.munge needs libmunge: install libmunge2 (" +
                                              std::string(why != nullptr ? why : "it is too old") + ")");
}

const Result<Libmunge>& libmunge() {
  static const Result<Libmunge> loaded = load_libmunge();
  return loaded;
}

/// A context of libmunge with the options set; null: there is no memory.
class Context {
 public:
  explicit Context(const MungeOptions& options) : munge_(*libmunge()), context_(munge_.ctx_create()) {
    if (context_ != nullptr && !options.socket.empty()) munge_.ctx_set(context_, kSocket, options.socket.c_str());
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() {
    if (context_ != nullptr) munge_.ctx_destroy(context_);
  }
  explicit operator bool() const { return context_ != nullptr; }
  const Libmunge& library() const { return munge_; }
  Libmunge::Context get() const { return context_; }
  template <typename Value>
  Value option(Option which, Value otherwise) const {
    Value value = otherwise;
    return munge_.ctx_get(context_, which, &value) == kSuccess ? value : otherwise;
  }
  Error error(Errc code, const std::string& what) const {
    const char* const why = munge_.ctx_strerror(context_);
    return Error::told(code, what + ": " + (why != nullptr ? why : "unknown"));
  }

 private:
  const Libmunge& munge_;
  Libmunge::Context context_;
};

/// Memory that libmunge has allocated. It is cleared before it is freed, since it holds a secret.
struct Payload {
  Payload() = default;
  Payload(void* bytes, int its_size) : data(bytes), size(its_size) {}
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;
  ~Payload() {
    if (data != nullptr && size > 0) ::explicit_bzero(data, static_cast<std::size_t>(size));
    std::free(data);
  }
  ByteView view() const { return {static_cast<const std::byte*>(data), static_cast<std::size_t>(std::max(size, 0))}; }
  void* data = nullptr;
  int size = 0;
};

Bytes payload_for(FsId fs, ServerId server, const Key& secret) {
  Bytes bytes;
  Encoder out(bytes);
  out.raw(as_bytes(kPurpose));
  out.u64(fs.value);
  out.u32(server.value);
  out.raw(secret);
  return bytes;
}

/// Nothing unless the payload was made for this server, by a client of this file system.
std::optional<Key> secret_in(ByteView payload, FsId fs, ServerId self) {
  Key secret{};
  if (payload.size() != kPayloadBytes) return std::nullopt;
  std::ranges::copy(payload.last(secret.size()), secret.begin());
  const Bytes expected = payload_for(fs, self, secret);
  if (!std::ranges::equal(expected, payload)) return std::nullopt;
  return secret;
}

/// The groups that this machine knows for the user; none for a user that it does not know.
std::vector<std::uint32_t> groups_of(uid_t uid, gid_t gid) {
  std::array<char, 16384> text{};
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(uid, &entry, text.data(), text.size(), &found) != 0 || found == nullptr) return {};
  std::vector<gid_t> groups(kMaxGroups + 1);
  int count = static_cast<int>(groups.size());
  if (::getgrouplist(found->pw_name, gid, groups.data(), &count) < 0) count = static_cast<int>(groups.size());
  return {groups.begin(), groups.begin() + count};
}

}  // namespace

UserKey munge_user(const Credential& user) {
  UserKey key;
  std::ranges::copy(kMungeKeyId, key.id.begin());
  for (std::size_t i = 0; i < 4; ++i) key.id[4 + i] = static_cast<std::byte>(user.uid >> (24 - 8 * i));
  key.user = squash_root(user);
  std::vector<std::uint32_t>& groups = key.user.groups;
  std::ranges::sort(groups);
  const auto twice = std::ranges::unique(groups);
  groups.erase(twice.begin(), twice.end());
  std::erase(groups, key.user.gid);
  if (groups.size() > kMaxGroups) groups.resize(kMaxGroups);
  return key;
}

Result<std::shared_ptr<const Munge>> Munge::open(MungeOptions options) {
  if (!libmunge()) return libmunge().error();
  return std::make_shared<const Munge>(std::move(options));
}

Result<ClientKey> Munge::key_for(FsId fs, ServerId server) const {
  const Context context(options_);
  if (!context) return Error(Errc::kNoMemory, "munge");
  const Libmunge& munge = context.library();
  ClientKey key;
  SystemRandom().fill(key.secret);
  const Bytes payload = payload_for(fs, server, key.secret);
  if (munge.ctx_set(context.get(), kUidRestriction, static_cast<uid_t>(options_.server_uid)) != kSuccess)
    return Error(Errc::kNotSupported, "munge: a credential for one user");
  char* credential = nullptr;
  const int status = munge.encode(&credential, context.get(), payload.data(), static_cast<int>(payload.size()));
  const Payload freed_later(credential, credential != nullptr ? static_cast<int>(std::strlen(credential)) : 0);
  if (status != kSuccess) return context.error(Errc::kUnauthenticated, "munged of this machine");
  key.issuer = kMungeKeyId;
  key.restrictions = to_bytes(freed_later.view());
  return key;
}

Result<MungeIdentity> Munge::read(FsId fs, ServerId self, ByteView credential) const {
  const auto refuse = [](const char* why) { return Error::told(Errc::kUnauthenticated, std::string("munge: ") + why); };
  if (credential.size() > kMostCredentialBytes) return refuse("a credential that is too long");
  const Context context(options_);
  if (!context) return Error(Errc::kNoMemory, "munge");
  const std::string text(as_text(credential));
  Payload payload;
  uid_t uid = 0;
  gid_t gid = 0;
  const int status = context.library().decode(text.c_str(), context.get(), &payload.data, &payload.size, &uid, &gid);
  const bool silent = status == kSocketError || status == kTimeout;
  if (status != kSuccess)  // also if it is expired or repeated
    return context.error(silent ? Errc::kBusy : Errc::kUnauthenticated, "munged of the server");
  // Another user who can read the credential knows the secret in it, and could act for its user.
  if (context.option(kCipher, kNoCipher) == kNoCipher)
    return refuse(
        "anybody could read the credential, since it is not encrypted: the munge that made it needs a cipher (see "
        "munge --list-ciphers)");
  if (context.option(kUidRestriction, static_cast<uid_t>(-1)) != ::geteuid())
    return refuse("users other than the server's could read the credential: set auth.munge_server_user");
  const std::optional<Key> found = secret_in(payload.view(), fs, self);
  if (!found) return refuse("a credential for another server, or for another purpose");
  MungeIdentity munge_identity{munge_user({uid, gid, groups_of(uid, gid)}), *found};
  if (std::string fault = fault_of(munge_identity.key); !fault.empty())
    return Error::told(Errc::kUnauthenticated, fault);
  return munge_identity;
}

}  // namespace spate::rpc
