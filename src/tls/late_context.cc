// SPDX-License-Identifier: Apache-2.0
#include "tls/late_context.h"

#include <string_view>
#include <utility>

#include "base/plugin.h"

namespace spate::tls {
namespace {

class LateContext final : public Context {
 public:
  explicit LateContext(Settings settings) : settings_(std::move(settings)) {}

  Result<void> open() override {
    if (inner_ == nullptr) {
      SPATE_TRY(inner_, load());
    }
    return inner_->open();
  }
  std::optional<Facts> facts() const override { return inner_ != nullptr ? inner_->facts() : std::nullopt; }
  Result<std::unique_ptr<Stream>> connect(int socket, const std::string& host) override {
    SPATE_TRY(std::ignore, open());
    return inner_->connect(socket, host);
  }
  Result<std::unique_ptr<Stream>> accept(int socket) override {
    SPATE_TRY(std::ignore, open());
    return inner_->accept(socket);
  }

 private:
  Result<std::unique_ptr<Context>> load() const {
    const Result<Plugin> plugin = load_plugin("libspate-tls.so");
    if (!plugin) {
      return Error(Errc::kNoSuchModule, "TLS cannot be loaded (" + plugin.error().context() +
                                            "); it needs libspate-tls.so beside the program and the package libssl3");
    }
    auto* const interface = reinterpret_cast<const char* (*)()>(plugin->symbol(kInterfaceSymbol));
    auto* const make = reinterpret_cast<Context* (*)(const Settings*)>(plugin->symbol(kMakeSymbol));
    if (interface == nullptr || make == nullptr || std::string_view(interface()) != kInterface)
      return foreign_plugin(plugin->path);
    return std::unique_ptr<Context>(make(&settings_));
  }

  const Settings settings_;
  std::unique_ptr<Context> inner_;
};

}  // namespace

std::unique_ptr<Context> make_late_context(Settings settings) {
  return std::make_unique<LateContext>(std::move(settings));
}

}  // namespace spate::tls
