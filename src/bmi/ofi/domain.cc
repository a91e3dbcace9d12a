// SPDX-License-Identifier: Apache-2.0
#include "bmi/ofi/domain.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/check.h"
#include "base/random.h"

namespace spate::bmi::ofi {
namespace {

/// Sets libfabric's variables, unless the environment has them. It is called before libfabric reads them. (1) ofi_rxm
/// prepares buffers of 16 KiB for each connection, 32 MiB a peer by default: take fewer. (2) Its completion queue has
/// room for the buffers of all peers of the "universe", and devices limit it (rdma_rxe to 32,767 entries, which the
/// default of 256 peers exceeds by one): more peers have to share it. (3) No cache of registrations below PinCache:
/// memory that PinCache deregisters would stay registered there, and a peer that has its key could read what the memory
/// holds later.
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

}  // namespace

Result<void> Domain::find_provider() {
  const char* const node = options_.node.empty() || options_.on_this_host() ? nullptr : options_.node.c_str();
  const char* const service = options_.service.empty() || options_.on_this_host() ? nullptr : options_.service.c_str();
  const std::uint64_t flags = options_.bind && node != nullptr ? FI_SOURCE : 0;
  choose_settings();
  fi_info* found = nullptr;
  int failed = 0;
  for (const bool with_reads : {true, false}) {
    const Info hints = make_hints(options_, with_reads);
    failed = fi_getinfo(kApi, node, service, flags, hints.get(), &found);
    reads_ = failed == 0 && with_reads;
    if (failed == 0) break;
  }
  if (failed != 0) {
    return Error(Errc::kNotSupported, "libfabric's provider \"" + options_.provider + "\" cannot reach " +
                                          (options_.node.empty() ? "any network" : options_.node) + " here (" +
                                          fi_strerror(-failed) + "; it has: " + known_providers() + ")");
  }
  info_.reset(found);
  const fi_info& info = *found;
  device_ = std::string(info.domain_attr->name) + "/" + info.fabric_attr->name;
  const auto mode = static_cast<unsigned>(info.domain_attr->mr_mode);
  local_needed_ = (mode & FI_MR_LOCAL) != 0;
  virtual_addresses_ = (mode & FI_MR_VIRT_ADDR) != 0;
  provider_keys_ = (mode & FI_MR_PROV_KEY) != 0;
  max_pieces_ = std::max<std::size_t>(1, info.tx_attr->iov_limit);
  options_.packet_bytes = std::min(options_.packet_bytes, info.ep_attr->max_msg_size);
  // The shm provider answers each message above the inject size in the sender's memory, which may be gone by then (see
  // ShmNames).
  if (options_.on_this_host()) options_.packet_bytes = std::min(options_.packet_bytes, info.tx_attr->inject_size);
  options_.receive_packets = std::min(options_.receive_packets, info.rx_attr->size);
  if (options_.packet_bytes < 1024) return Error(Errc::kNotSupported, options_.provider + " takes too small messages");
  return {};
}

Result<void> Domain::open(PageWatcher* watch) {
  fid_fabric* fabric = nullptr;
  int failed = fi_fabric(info_->fabric_attr, &fabric, nullptr);
  if (failed != 0) return fabric_error(failed, "fi_fabric");
  fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  failed = fi_domain(fabric, info_.get(), &domain, nullptr);
  if (failed != 0) return fabric_error(failed, "fi_domain");
  domain_.reset(domain);
  pins_ = std::make_unique<PinCache>(*this, watch, options_.pins);
  return {};
}

void Domain::bind_to(ByteView address) {
  std::free(info_->src_addr);
  info_->src_addr = std::malloc(address.size());
  SPATE_CHECK(info_->src_addr != nullptr);
  std::memcpy(info_->src_addr, address.data(), address.size());
  info_->src_addrlen = address.size();
  options_.bind = true;
}

void Domain::bind_to_node(std::string node, bool bind) {
  options_.node = std::move(node);
  options_.bind = options_.bind || bind;
}

std::uint64_t Domain::new_key() const {
  // The key is random, so that a peer that got one key cannot guess another one.
  SystemRandom random;
  const std::size_t size = info_->domain_attr->mr_key_size;
  const std::uint64_t key = random.next();
  return size >= sizeof key ? key : key & ((std::uint64_t{1} << (8 * size)) - 1);
}

long Domain::register_memory(void* memory, std::size_t bytes, std::uint64_t access, Fid<fid_mr>& out) const {
  fid_mr* key = nullptr;
  const std::uint64_t wanted = provider_keys_ ? 0 : new_key();
  const int failed = fi_mr_reg(domain_.get(), memory, bytes, access, 0, wanted, 0, &key, nullptr);
  out.reset(key);
  return failed;
}

Result<void*> Domain::pin(const PageRange& range) {
  constexpr int kTries = 4;  // a random key may be taken
  long failed = 0;
  for (int i = 0; i < kTries; ++i) {
    Fid<fid_mr> key;
    failed = register_memory(reinterpret_cast<void*>(range.begin), range.size(), FI_READ | FI_REMOTE_READ, key);
    if (failed == 0) return static_cast<void*>(key.release());
    if (failed != -FI_ENOKEY) break;
  }
  return fabric_error(failed, "registering memory");
}

void Domain::unpin(void* handle) { (void)fi_close(&static_cast<fid_mr*>(handle)->fid); }

Extent Domain::extent_of(const PinCache::Region& region, const std::byte* data, std::uint64_t size) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return {fi_mr_key(static_cast<fid_mr*>(region.handle())),
          virtual_addresses_ ? address : address - region.range().begin, size};
}

void* Domain::descriptor_of(const PinCache::Region& region) const {
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
