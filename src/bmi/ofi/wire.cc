// SPDX-License-Identifier: Apache-2.0
// Opening and closing an endpoint, and registering memory with it. Its traffic: wire_io.cc.
#include "bmi/ofi/wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "base/random.h"
#include "bmi/ofi/wire_internal.h"

namespace spate::bmi::ofi {
namespace {

constexpr std::uint32_t kApi = FI_VERSION(1, 15);
constexpr std::size_t kQueueSize = 1024;
constexpr std::size_t kSlabPackets = 64;

/// Buffers that ofi_rxm makes ready for each connection (of 16 KiB each): by itself it takes 32 MiB a peer. Its
/// completion queue has room for those of so many peers as the universe has, and devices have a limit (32,767 entries
/// with rdma_rxe, which libfabric's 256 peers exceed by one): more peers share it. And no second cache of registrations
/// below PinCache: what that one deregisters would stay registered, and a peer that has its key would read what is
/// there later. Set before libfabric reads its settings, and only if the environment does not set it.
void choose_settings() {
  static std::once_flag once;
  std::call_once(once, [] {
    (void)::setenv("FI_OFI_RXM_MSG_RX_SIZE", "64", 0);
    (void)::setenv("FI_OFI_RXM_MSG_TX_SIZE", "64", 0);
    (void)::setenv("FI_UNIVERSE_SIZE", "128", 0);
    (void)::setenv("FI_MR_CACHE_MONITOR", "disabled", 0);
    (void)::setenv("FI_OFI_RXM_CM_PROGRESS_INTERVAL", "1000", 0);
  });
}

Info make_hints(const WireOptions& options, bool with_reads) {
  Info hints(fi_allocinfo());
  SPATE_CHECK(hints != nullptr);
  hints->fabric_attr->prov_name = ::strdup(options.provider.c_str());
  hints->ep_attr->type = FI_EP_RDM;
  hints->caps = FI_MSG;
  if (with_reads) hints->caps |= FI_RMA | FI_READ | FI_REMOTE_READ;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->tx_attr->msg_order = FI_ORDER_SAS;
  hints->rx_attr->msg_order = FI_ORDER_SAS;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  return hints;
}

bool is_shm(const WireOptions& options) { return options.provider == "shm"; }

/// net's descriptor is always readable in 1.17: to sleep on it would be to spin.
bool may_have_descriptor(const WireOptions& options) { return options.provider != "net"; }

}  // namespace

ShmNames& ShmNames::of_this_process() {
  static ShmNames names;
  return names;
}

Wire::Wire(WireOptions options) : options_(std::move(options)), fabric_(std::make_unique<Fabric>()) {}

Result<std::unique_ptr<Wire>> Wire::open(const WireOptions& options, PageWatcher* watch) {
  choose_settings();
  std::unique_ptr<Wire> wire(new Wire(options));
  SPATE_TRY(std::ignore, wire->find_provider());
  SPATE_TRY(std::ignore, wire->open_domain());
  SPATE_TRY(std::ignore, wire->open_endpoint());
  wire->pins_ = std::make_unique<PinCache>(*wire, watch, options.pins);
  return wire;
}

Wire::~Wire() {
  // Registrations of callers' memory go while there is a domain, whatever still uses them: the endpoint is closed
  // first.
  {
    ShmNames& local = ShmNames::of_this_process();
    const std::lock_guard lock(local.mutex);
    if (is_shm(options_)) local.names.erase(name_);
    fabric_->endpoint.reset();
  }
  pins_.reset();
  fabric_->queue.reset();
  fabric_->addresses.reset();
  fabric_->slab_keys.clear();
  fabric_->domain.reset();
}

Result<void> Wire::find_provider() {
  const char* const node = options_.node.empty() || is_shm(options_) ? nullptr : options_.node.c_str();
  const char* const service = options_.service.empty() || is_shm(options_) ? nullptr : options_.service.c_str();
  const std::uint64_t flags = options_.bind && node != nullptr ? FI_SOURCE : 0;
  fi_info* found = nullptr;
  int failed = 0;
  for (const bool with_reads : {true, false}) {
    const Info hints = make_hints(options_, with_reads);
    failed = fi_getinfo(kApi, node, service, flags, hints.get(), &found);
    reads_ = failed == 0 && with_reads;
    if (failed == 0) break;
  }
  if (failed != 0) {
    return Error(Errc::kNotSupported, "libfabric's provider \"" + options_.provider + "\" has no way to " +
                                          (options_.node.empty() ? "any network" : options_.node) + " here (" +
                                          fi_strerror(-failed) + "; it has: " + known_providers() + ")");
  }
  fabric_->info.reset(found);
  const fi_info& info = *found;
  device_ = std::string(info.domain_attr->name) + "/" + info.fabric_attr->name;
  const auto mode = static_cast<unsigned>(info.domain_attr->mr_mode);
  local_needed_ = (mode & FI_MR_LOCAL) != 0;
  virtual_addresses_ = (mode & FI_MR_VIRT_ADDR) != 0;
  provider_keys_ = (mode & FI_MR_PROV_KEY) != 0;
  max_pieces_ = std::max<std::size_t>(1, info.tx_attr->iov_limit);
  options_.packet_bytes = std::min(options_.packet_bytes, info.ep_attr->max_msg_size);
  // Above the inject size, shm answers each message in the sender's memory, which may be gone (ShmNames).
  if (is_shm(options_)) options_.packet_bytes = std::min(options_.packet_bytes, info.tx_attr->inject_size);
  options_.receive_packets = std::min(options_.receive_packets, info.rx_attr->size);
  if (options_.packet_bytes < 1024) return Error(Errc::kNotSupported, options_.provider + " takes too small messages");
  return {};
}

Result<void> Wire::open_domain() {
  fid_fabric* fabric = nullptr;
  int failed = fi_fabric(fabric_->info->fabric_attr, &fabric, nullptr);
  if (failed != 0) return fabric_error(failed, "fi_fabric");
  fabric_->fabric.reset(fabric);
  fid_domain* domain = nullptr;
  failed = fi_domain(fabric, fabric_->info.get(), &domain, nullptr);
  if (failed != 0) return fabric_error(failed, "fi_domain");
  fabric_->domain.reset(domain);
  return add_slab(options_.receive_packets, receive_buffers_);
}

Result<void> Wire::open_endpoint() {
  fi_av_attr address_options{};
  address_options.type = FI_AV_TABLE;
  fid_av* addresses = nullptr;
  int failed = fi_av_open(fabric_->domain.get(), &address_options, &addresses, nullptr);
  if (failed != 0) return fabric_error(failed, "fi_av_open");
  fabric_->addresses.reset(addresses);
  fi_cq_attr queue_options{};
  queue_options.format = FI_CQ_FORMAT_MSG;
  queue_options.size = kQueueSize;
  queue_options.wait_obj = may_have_descriptor(options_) ? FI_WAIT_FD : FI_WAIT_NONE;
  fid_cq* queue = nullptr;
  failed = fi_cq_open(fabric_->domain.get(), &queue_options, &queue, nullptr);
  if (failed != 0 && queue_options.wait_obj == FI_WAIT_FD) {
    queue_options.wait_obj = FI_WAIT_NONE;
    failed = fi_cq_open(fabric_->domain.get(), &queue_options, &queue, nullptr);
  }
  if (failed != 0) return fabric_error(failed, "fi_cq_open");
  fabric_->queue.reset(queue);
  wait_fd_ = -1;
  if (queue_options.wait_obj == FI_WAIT_FD && fi_control(&queue->fid, FI_GETWAIT, &wait_fd_) != 0) wait_fd_ = -1;
  fid_ep* endpoint = nullptr;
  failed = fi_endpoint(fabric_->domain.get(), fabric_->info.get(), &endpoint, nullptr);
  if (failed != 0) return fabric_error(failed, "fi_endpoint");
  fabric_->endpoint.reset(endpoint);
  const bool named = is_shm(options_) && options_.bind && !options_.node.empty();
  std::string wanted = "fi_shm://" + options_.node;
  if (named) {
    // A name in use by this process the provider would share rather than refuse.
    ShmNames& local = ShmNames::of_this_process();
    const std::lock_guard lock(local.mutex);
    if (local.names.contains(Bytes(as_bytes(wanted).begin(), as_bytes(wanted).end()))) {
      return Error(Errc::kExists, wanted + " is in use");
    }
    failed = fi_setname(&endpoint->fid, wanted.data(), wanted.size() + 1);
  }
  if (failed == 0) failed = fi_ep_bind(endpoint, &addresses->fid, 0);
  if (failed == 0) failed = fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV);
  if (failed == 0) failed = fi_enable(endpoint);
  if (failed != 0) return fabric_error(failed, "opening an endpoint of " + options_.provider);
  SPATE_TRY(std::ignore, learn_name());
  for (PacketBuffer* buffer : receive_buffers_) {
    if (Result<void> posted = post_receive(*buffer); !posted) return posted;
  }
  return {};
}

Result<void> Wire::learn_name() {
  name_.resize(kMaxAddress);
  std::size_t size = name_.size();
  const int failed = fi_getname(&fabric_->endpoint->fid, name_.data(), &size);
  if (failed != 0) return fabric_error(failed, "fi_getname");
  name_.resize(size);
  if (!is_shm(options_)) return {};
  while (!name_.empty() && name_.back() == std::byte{0}) name_.pop_back();
  ShmNames& local = ShmNames::of_this_process();
  const std::lock_guard lock(local.mutex);
  local.names.insert(name_);
  return {};
}

Result<std::string> Wire::device_for(const WireOptions& options) {
  choose_settings();
  Wire wire(options);
  SPATE_TRY(std::ignore, wire.find_provider());
  return wire.device_;
}

std::string Wire::text_of(ByteView name) const {
  constexpr std::size_t kPrefix = std::string_view("fi_shm://").size();
  if (is_shm(options_)) return name.size() < kPrefix ? std::string() : std::string(as_text(name.subspan(kPrefix)));
  char ip[INET6_ADDRSTRLEN] = "";
  if (fabric_->info->addr_format == FI_SOCKADDR_IN && name.size() >= sizeof(sockaddr_in)) {
    sockaddr_in v4{};
    std::memcpy(&v4, name.data(), sizeof v4);
    inet_ntop(AF_INET, &v4.sin_addr, ip, sizeof ip);
    return std::string(ip) + ":" + std::to_string(ntohs(v4.sin_port));
  }
  if (fabric_->info->addr_format == FI_SOCKADDR_IN6 && name.size() >= sizeof(sockaddr_in6)) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, name.data(), sizeof v6);
    inet_ntop(AF_INET6, &v6.sin6_addr, ip, sizeof ip);
    return "[" + std::string(ip) + "]:" + std::to_string(ntohs(v6.sin6_port));
  }
  return {};
}

Result<void> Wire::reopen(bool at_its_address) {
  if (is_shm(options_)) options_.node = text_of(name_);
  {
    ShmNames& local = ShmNames::of_this_process();
    const std::lock_guard lock(local.mutex);
    if (is_shm(options_)) local.names.erase(name_);
    fabric_->endpoint.reset();
  }
  fabric_->queue.reset();
  fabric_->addresses.reset();
  reads_in_flight_.clear();
  parting_.clear();
  routes_.clear();
  known_.clear();
  known_order_.clear();
  worked_.clear();
  in_flight_ = 0;
  free_buffers_.clear();
  for (const auto& slab : slabs_) {
    for (PacketBuffer& buffer : *slab) {
      if (buffer.kind == Context::Kind::kSend) free_buffers_.push_back(&buffer);
    }
  }
  // The same address as before, whatever the provider chose then.
  if (!is_shm(options_) && at_its_address) {
    std::free(fabric_->info->src_addr);
    fabric_->info->src_addr = std::malloc(name_.size());
    SPATE_CHECK(fabric_->info->src_addr != nullptr);
    std::memcpy(fabric_->info->src_addr, name_.data(), name_.size());
    fabric_->info->src_addrlen = name_.size();
  }
  options_.bind = options_.bind || at_its_address;
  return open_endpoint();
}

Result<void> Wire::add_slab(std::size_t packets, std::vector<PacketBuffer*>& out) {
  const bool receive = &out == &receive_buffers_;
  const std::size_t bytes = packets * options_.packet_bytes;
  void* const memory = std::aligned_alloc(Buffer::kPageAlignment, (bytes + 4095) / 4096 * 4096);
  SPATE_CHECK(memory != nullptr);
  std::memset(memory, 0, bytes);
  slab_memory_.emplace_back(static_cast<std::byte*>(memory), &std::free);
  void* descriptor = nullptr;
  if (local_needed_) {
    fid_mr* key = nullptr;
    const int failed = fi_mr_reg(fabric_->domain.get(), memory, bytes, receive ? FI_RECV : FI_SEND, 0,
                                 provider_keys_ ? 0 : new_key(), 0, &key, nullptr);
    if (failed != 0) return fabric_error(failed, "registering packet buffers (ulimit -l?)");
    fabric_->slab_keys.emplace_back(key);
    descriptor = fi_mr_desc(key);
  }
  auto& slab = slabs_.emplace_back(std::make_unique<std::vector<PacketBuffer>>(packets));
  for (std::size_t i = 0; i < packets; ++i) {
    PacketBuffer& buffer = (*slab)[i];
    buffer.kind = receive ? Context::Kind::kReceive : Context::Kind::kSend;
    buffer.data = static_cast<std::byte*>(memory) + i * options_.packet_bytes;
    buffer.descriptor = descriptor;
    out.push_back(&buffer);
  }
  return {};
}

PacketBuffer* Wire::take_buffer() {
  if (free_buffers_.empty() && send_buffers_ < options_.send_packets) {
    if (!add_slab(kSlabPackets, free_buffers_)) return nullptr;
    send_buffers_ += kSlabPackets;
  }
  if (free_buffers_.empty()) return nullptr;
  PacketBuffer* buffer = free_buffers_.back();
  free_buffers_.pop_back();
  return buffer;
}

void Wire::give_buffer(PacketBuffer& buffer) { free_buffers_.push_back(&buffer); }

std::byte* Wire::data_of(PacketBuffer& buffer) { return buffer.data; }

std::uint64_t Wire::new_key() {
  // Random, so that a peer that got one key cannot guess another.
  SystemRandom random;
  const std::size_t size = fabric_->info->domain_attr->mr_key_size;
  const std::uint64_t key = random.next();
  return size >= sizeof key ? key : key & ((std::uint64_t{1} << (8 * size)) - 1);
}

Result<void*> Wire::pin(const PageRange& range) {
  constexpr int kTries = 4;  // a random key may be taken
  int failed = 0;
  for (int i = 0; i < kTries; ++i) {
    fid_mr* key = nullptr;
    failed = fi_mr_reg(fabric_->domain.get(), reinterpret_cast<void*>(range.begin), range.size(),
                       FI_READ | FI_REMOTE_READ, 0, provider_keys_ ? 0 : new_key(), 0, &key, nullptr);
    if (failed == 0) return static_cast<void*>(key);
    if (failed != -FI_ENOKEY) break;
  }
  return fabric_error(failed, "registering memory");
}

void Wire::unpin(void* handle) { (void)fi_close(&static_cast<fid_mr*>(handle)->fid); }

Extent Wire::extent_of(const PinCache::Region& region, const std::byte* data, std::uint64_t size) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return {fi_mr_key(static_cast<fid_mr*>(region.handle())),
          virtual_addresses_ ? address : address - region.range().begin, size};
}

void* Wire::descriptor_of(const PinCache::Region& region) const {
  return local_needed_ ? fi_mr_desc(static_cast<fid_mr*>(region.handle())) : nullptr;
}

std::string known_providers() {
  fi_info* all = nullptr;
  std::string names;
  if (fi_getinfo(kApi, nullptr, nullptr, FI_PROV_ATTR_ONLY, nullptr, &all) != 0) return names;
  const Info list(all);
  for (const fi_info* info = all; info != nullptr; info = info->next) {
    const std::string_view name = info->fabric_attr->prov_name;
    if (name.starts_with("ofi_")) continue;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

}  // namespace spate::bmi::ofi
