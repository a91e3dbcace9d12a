// SPDX-License-Identifier: Apache-2.0
#include "bmi/late_module.h"

#include <sys/epoll.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/plugin.h"

namespace spate::bmi {
namespace {

/// Passes the calls of Module to the inner module once it is loaded. Until then no URL is listened on or looked up, so
/// nothing can be posted.
class LateModule final : public Module {
 public:
  LateModule(std::string scheme, const ModuleEnvironment& environment, ModuleLoader loader)
      : scheme_(std::move(scheme)), environment_(environment), loader_(std::move(loader)) {}
  LateModule(const LateModule&) = delete;
  LateModule& operator=(const LateModule&) = delete;

  std::string_view scheme() const override { return scheme_; }
  Abilities abilities() const override { return inner() != nullptr ? inner()->abilities() : Abilities{}; }

  Result<void> start(Sink& sink, const NetworkOptions& options) override {
    sink_ = &sink;
    options_ = &options;
    epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_) return errno_error(errno, "start of the " + scheme_ + " module");
    return {};
  }
  Result<std::string> listen(std::string_view url, ContextId context) override {
    SPATE_TRY(Module * module, loaded());
    return module->listen(url, context);
  }
  Result<PeerId> lookup(std::string_view url, Address address) override {
    SPATE_TRY(Module * module, loaded());
    return module->lookup(url, address);
  }
  PeerState peer_state(PeerId peer) const override { return inner()->peer_state(peer); }
  std::uint32_t connection(PeerId peer) const override { return inner()->connection(peer); }
  std::vector<ModuleCount> counts() const override {
    return inner() != nullptr ? inner()->counts() : std::vector<ModuleCount>();
  }
  void disconnect(PeerId peer) override { inner()->disconnect(peer); }
  void forget_failure(PeerId peer) override { inner()->forget_failure(peer); }
  void admit(PeerId peer) override { inner()->admit(peer); }
  void set_link_key(PeerId peer, std::uint32_t connection, const Key& key) override {
    inner()->set_link_key(peer, connection, key);
  }
  Result<PostResult> post_send(const Post& post) override { return inner()->post_send(post); }
  Result<PostResult> post_recv(const Post& post) override { return inner()->post_recv(post); }
  Result<PostResult> post_send_unexpected(const Post& post) override { return inner()->post_send_unexpected(post); }
  bool send_at_once(const Post& post, bool unexpected) override { return inner()->send_at_once(post, unexpected); }
  void cancel(PeerId peer, OpId op) override { inner()->cancel(peer, op); }
  void consumed(PeerId peer, std::uint64_t charge) override { inner()->consumed(peer, charge); }
  bool progress() override { return inner() != nullptr && inner()->progress(); }
  int wait_descriptor() const override { return epoll_.get(); }
  bool also_wait_for(int fd) override {
    watch(fd);
    return true;
  }
  void stop_waiting_for(int fd) override { SPATE_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0); }
  bool prepare_to_wait() override { return inner() == nullptr || inner()->prepare_to_wait(); }
  Result<void> pass_descriptor(PeerId peer, Tag tag, int fd) override {
    return inner()->pass_descriptor(peer, tag, fd);
  }
  Result<UniqueFd> take_descriptor(PeerId peer, Tag tag) override { return inner()->take_descriptor(peer, tag); }
  void hold_sends() override {
    if (inner() != nullptr) inner()->hold_sends();
  }
  void flush_sends() override {
    if (inner() != nullptr) inner()->flush_sends();
  }
  Result<void> mem_register(MutableByteView memory) override {
    const std::lock_guard lock(mutex_);
    memory_.push_back(memory);
    return inner() != nullptr ? inner()->mem_register(memory) : Result<void>();
  }
  void mem_deregister(MutableByteView memory) override {
    const std::lock_guard lock(mutex_);
    std::erase_if(memory_, [&](MutableByteView m) { return m.data() == memory.data() && m.size() == memory.size(); });
    if (inner() != nullptr) inner()->mem_deregister(memory);
  }

 private:
  Module* inner() const { return inner_.load(std::memory_order_acquire); }

  Result<Module*> loaded() {
    const std::lock_guard lock(mutex_);
    if (inner() != nullptr) return inner();
    SPATE_TRY(std::unique_ptr<Module> module, loader_(scheme_, environment_));
    if (Result<void> started = module->start(*sink_, *options_); !started) return started.error();
    watch(module->wait_descriptor());
    // Memory that cannot be registered moves like any other memory.
    for (const MutableByteView memory : memory_) (void)module->mem_register(memory).has_value();
    owned_ = std::move(module);
    inner_.store(owned_.get(), std::memory_order_release);
    return owned_.get();
  }

  void watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    SPATE_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0);
  }

  const std::string scheme_;
  const ModuleEnvironment environment_;
  const ModuleLoader loader_;
  Sink* sink_ = nullptr;
  const NetworkOptions* options_ = nullptr;
  UniqueFd epoll_;
  std::atomic<Module*> inner_{nullptr};
  std::mutex mutex_;                     // guards the loading, and memory_
  std::vector<MutableByteView> memory_;  // registered explicitly; the inner module gets it when it is loaded
  std::unique_ptr<Module> owned_;
};

}  // namespace

Result<std::unique_ptr<Module>> load_module(std::string_view scheme, const ModuleEnvironment& environment) {
  const std::string file = "libspate-bmi-" + std::string(scheme) + ".so";
  const Result<Plugin> plugin = load_plugin(file);
  if (!plugin) {
    return Error(Errc::kNoSuchModule, "the network module \"" + std::string(scheme) + "\" cannot be loaded (" +
                                          plugin.error().context() + "); it needs " + file +
                                          " beside the program and the package libfabric1");
  }
  auto* const interface = reinterpret_cast<const char* (*)()>(plugin->symbol(kModuleInterfaceSymbol));
  auto* const make = reinterpret_cast<Module* (*)(const ModuleEnvironment*)>(plugin->symbol(kModuleMakeSymbol));
  if (interface == nullptr || make == nullptr || std::string_view(interface()) != kModuleInterface)
    return foreign_plugin(plugin->path);
  return std::unique_ptr<Module>(make(&environment));
}

std::unique_ptr<Module> make_late_module(std::string scheme, const ModuleEnvironment& environment,
                                         ModuleLoader loader) {
  return std::make_unique<LateModule>(std::move(scheme), environment, std::move(loader));
}

}  // namespace spate::bmi
