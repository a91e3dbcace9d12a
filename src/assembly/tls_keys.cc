// SPDX-License-Identifier: Apache-2.0
#include "assembly/tls_keys.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "config/key_file.h"
#include "log/fields.h"
#include "log/log.h"
#include "model/user_key.h"
#include "tls/late_context.h"
#include "wire/handshake.h"

namespace spate::assembly {
namespace {

/// The name of a key on the wire: its id, and of a user's key the restrictions that make it (docs/wire-tcp.md, "TLS").
Bytes name_of(const KeyId& id, ByteView restrictions) {
  Bytes name = to_bytes(id);
  name.insert(name.end(), restrictions.begin(), restrictions.end());
  return name;
}

/// The keys of a file system for TLS. They admit nobody: the handshake inside of TLS does (rpc/acceptor.h).
class FileSystemKeys final : public tls::Keys {
 public:
  FileSystemKeys(const config::FileSystemConfig& config, bool server)
      : fs_(config.fs.id),
        client_file_(config.fs.client_key_file),
        server_file_(config.fs.server_key_file),
        server_(server) {
    if (server_) read_rings();
  }

  Result<tls::SharedKey> own() override {
    if (server_) {
      SPATE_TRY(const spate::Key key, config::read_key_file(server_file_));
      return shared(ClientKey(key));
    }
    SPATE_TRY(const ClientKey key, config::read_client_key(client_file_));
    return shared(key);
  }

  std::optional<spate::Key> find(ByteView identity) override {
    constexpr std::size_t kIdBytes = std::tuple_size_v<KeyId>;
    if (identity.size() < kIdBytes || identity.size() > kIdBytes + kMaxUserKeyBytes) return std::nullopt;
    KeyId id{};
    std::ranges::copy(identity.first(kIdBytes), id.begin());
    const ByteView restrictions = identity.subspan(kIdBytes);
    for (const Known& known : known_) {
      if (known.key.id() != id) continue;
      if (restrictions.empty()) return known.key.for_tls();
      if (known.is_clients && decode_user_key(restrictions)) return known.key.for_user(restrictions).for_tls();
    }
    return std::nullopt;
  }

 private:
  struct Known {
    wire::FileKey key;
    bool is_clients = false;
  };

  tls::SharedKey shared(const ClientKey& key) const {
    const wire::FileKey held(fs_, key);
    return {name_of(key.is_users() ? key.issuer : held.id(), key.restrictions), held.for_tls()};
  }
  void read_rings() {
    const auto add = [this](const std::string& file, bool is_clients) {
      const auto ring = config::read_keys(file);
      if (!ring) return;  // the server does not start without its keys
      known_.push_back({wire::FileKey(fs_, ring->used), is_clients});
      for (const spate::Key& other : ring->others) known_.push_back({wire::FileKey(fs_, other), is_clients});
    };
    if (!client_file_.empty()) add(client_file_, true);
    add(server_file_, false);
  }

  const FsId fs_;
  const std::string client_file_;
  const std::string server_file_;
  const bool server_;
  std::vector<Known> known_;
};

void note(bool good, const std::string& what) {
  if (good) {
    SPATE_LOG("assembly", info, "{}", what);
  } else {
    SPATE_LOG("assembly", error, "{}", what);
  }
}

}  // namespace

bool uses_tls(const config::FileSystemConfig& config) {
  return std::ranges::any_of(config.servers, [](const config::ServerConfig& server) {
    return std::ranges::any_of(server.urls, [](const std::string& url) { return url.starts_with("tcp+tls://"); });
  });
}

std::shared_ptr<tls::Context> make_tls(const config::FileSystemConfig& config, bool server) {
  if (!uses_tls(config)) return nullptr;
  tls::Settings settings;
  settings.files = {config.tls.ca, config.tls.certificate, config.tls.key, config.tls.revoked};
  if (settings.files.empty()) settings.keys = std::make_shared<FileSystemKeys>(config, server);
  settings.note = &note;
  return tls::make_late_context(std::move(settings));
}

}  // namespace spate::assembly
