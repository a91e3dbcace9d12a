// SPDX-License-Identifier: Apache-2.0
// Core: the Network over its modules. It has the contexts and addresses. Posts has the operations, and the modules move
// the bytes.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bmi/context.h"
#include "bmi/memory.h"
#include "bmi/module.h"
#include "bmi/network.h"
#include "bmi/posts.h"
#include "bmi/sleepers.h"

namespace spate::bmi {

/// Thread-safe. One lock guards all tables. The core never calls a module while it holds the lock, since a module may
/// call the sink from inside any of its functions. The destructor destroys the modules, which closes all connections;
/// no call may be inside.
class Core final : public Network {
 public:
  Core(std::vector<std::unique_ptr<Module>> modules, NetworkOptions options);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core() override;

  Result<std::string> listen(std::string_view url, ContextId context) override;
  ContextId open_context() override;
  void close_context(ContextId context) override;
  Result<Address> lookup(std::span<const std::string> urls) override;
  Result<Address> claim(std::span<const std::string> urls) override;
  void release(Address claimed) override;
  PeerInfo peer_info(Address peer) const override;
  Address bound(Address peer) const override;
  void disconnect(Address peer) override;
  void admit(Address peer) override;
  void set_link_key(Address peer, const Key& key) override;
  void prefer_first_url(Address peer) override;
  void prefer_next_url(Address peer) override;
  Result<void> pass_descriptor(Address peer, Tag tag, int fd) override;
  Result<UniqueFd> take_descriptor(Address peer, Tag tag) override;
  Result<Posted> post_send(const Message& message, ContextId context, void* user) override {
    return posts_.post(OpKind::kSend, message, context, user);
  }
  Result<Posted> post_recv(const Message& message, ContextId context, void* user) override {
    return posts_.post(OpKind::kReceive, message, context, user);
  }
  Result<Posted> post_send_unexpected(const Message& message, ContextId context, void* user) override {
    return posts_.post(OpKind::kSendUnexpected, message, context, user);
  }
  void cancel(OpId op) override { posts_.cancel(op); }
  std::size_t test_context(ContextId context, std::span<Completion> out) override;
  std::optional<Completion> test(ContextId context, OpId op) override;
  std::size_t test_some(ContextId context, std::span<const OpId> ops, std::span<Completion> out) override;
  std::size_t test_unexpected(ContextId context, std::span<UnexpectedMessage> out) override;
  int wait_descriptor(ContextId context) const override;
  bool prepare_to_wait(ContextId context) override;
  bool wait(ContextId context, Duration timeout) override;
  bool wake_by(ContextId context, int fd) override { return find_context(context).wake_by(fd); }
  void stop_wake_by(ContextId context, int fd) override { find_context(context).stop_wake_by(fd); }
  void hold_sends() override;
  void flush_sends() override;
  MutableByteView mem_alloc(std::size_t size) override { return memory_.allocate(started_, size); }
  void mem_free(MutableByteView memory) override { memory_.free(started_, memory); }
  const NetworkOptions& options() const override { return options_; }
  std::vector<NetworkCount> counts() const override;

 private:
  /// The sink of one module. It adds the module's identity to each call.
  class ModuleSink final : public Sink {
   public:
    ModuleSink(Core& core, Module& module) : core_(core), module_(module) {}
    void completed(std::span<const Outcome> outcomes) override { core_.posts_.completed(outcomes); }
    Address inbound(PeerId peer, ContextId context) override;
    void unexpected(PeerId peer, Address address, Tag tag, Buffer payload, std::uint64_t charge) override;
    void forgotten(PeerId peer, Address address) override;

   private:
    Core& core_;
    Module& module_;
  };

  /// A loaded module, and how often it had work lately.
  struct Loaded {
    std::unique_ptr<Module> module;
    std::unique_ptr<ModuleSink> sink;
    std::atomic<std::uint32_t> idle_turns{0};  // tests in a row without work
  };

  using FindList = Address (*)(AddressTable& table, const std::string& list);
  using EnterList = void (*)(AddressTable& table, std::string list, Address added);
  /// The address that `find` yields for the URLs. If there is none, a new one, which `enter` has entered in the table.
  Result<Address> find_or_add(std::span<const std::string> urls, FindList find, EnterList enter);
  Result<Address> add_address(std::span<const std::string> urls);
  Context& find_context(ContextId id) const;
  void progress();
  Context& awake(ContextId id);

  const NetworkOptions options_;
  std::deque<Loaded> modules_;
  std::vector<Module*> started_;        // the same modules, for callers that need only the pointers
  std::atomic<std::uint32_t> turn_{0};  // counts calls of progress()

  std::mutex lookup_mutex_;  // one lookup at a time; taken before the tables' mutex
  mutable CoreTables tables_;
  Sleepers sleepers_;  // the tables' mutex guards it
  Posts posts_{tables_, options_};
  MemoryService memory_;
};

}  // namespace spate::bmi
