// SPDX-License-Identifier: Apache-2.0
#include "bmi/ofi/address_book.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

namespace spate::bmi::ofi {
namespace {

/// libfabric's shm provider ends the process when it opens the name of an endpoint that does not exist. It also trusts
/// the contents of the endpoint's memory, and any user can create a file there. So only files of this user and of root
/// are opened.
bool shm_may_open(const std::string& name) {
  struct stat st{};
  const std::string path = "/dev/shm/" + name.substr(std::min(name.size(), kShmPrefix.size()));
  if (::lstat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) return false;
  return st.st_uid == ::geteuid() || st.st_uid == 0;
}

}  // namespace

Result<void> AddressBook::open(fid_domain& domain) {
  fi_av_attr options{};
  options.type = FI_AV_TABLE;
  fid_av* addresses = nullptr;
  const int failed = fi_av_open(&domain, &options, &addresses, nullptr);
  if (failed != 0) return fabric_error(failed, "fi_av_open");
  addresses_.reset(addresses);
  return {};
}

void AddressBook::close() {
  addresses_.reset();
  routes_.clear();
  known_.clear();
  known_order_.clear();
  reached_.clear();
}

Route* AddressBook::open_route(ByteView name, const Bytes& own, void* owner) {
  Bytes address = to_bytes(name);
  bool same_process = false;
  if (on_this_host_) {
    while (!address.empty() && address.back() == std::byte{0}) address.pop_back();
    const std::string text(as_text(address));
    if (!text.starts_with(kShmPrefix) || text.find('/', kShmPrefix.size()) != std::string::npos ||
        !shm_may_open(text)) {
      return nullptr;
    }
    ShmNames& local = ShmNames::of_this_process();
    const std::lock_guard lock(local.mutex);
    same_process = local.names.contains(address);
  } else if (address.size() != own.size()) {
    return nullptr;
  }
  auto route = std::make_unique<Route>();
  route->owner = owner;
  route->name = address;
  route->same_process = same_process;
  if (!insert_address(*route)) return nullptr;
  routes_.push_back(std::move(route));
  return routes_.back().get();
}

void AddressBook::forget_if_unused(Route& route) {
  if (route.owner != nullptr || route.in_flight > 0 || route.reads > 0 || route.refused != nullptr) return;
  remove_address(route);
  std::erase_if(routes_, [&](const std::unique_ptr<Route>& r) { return r.get() == &route; });
}

bool AddressBook::insert_address(Route& route) {
  const auto known = known_.find(route.name);
  if (known != known_.end()) {
    route.fabric_address = known->second;
    return true;
  }
  Bytes address = route.name;
  address.push_back(std::byte{0});  // because some providers' addresses are text
  fi_addr_t at = FI_ADDR_UNSPEC;
  if (fi_av_insert(addresses_.get(), address.data(), 1, &at, 0, nullptr) != 1) return false;
  route.fabric_address = at;
  if (on_this_host_) return true;
  known_.emplace(route.name, at);
  known_order_.push_back(route.name);
  return true;
}

/// Called when a route is closed. With shm an address is a mapping of the other side's memory, which must be made
/// again. With other providers the address is kept in case the peer comes back: in libfabric 1.17 rxm and net lose
/// messages that are sent soon after an address was removed and inserted again. Addresses beyond the limit are removed,
/// the oldest first.
void AddressBook::remove_address(const Route& route) {
  constexpr std::size_t kKept = 4096;
  fi_addr_t at = route.fabric_address;
  const auto uses = [&](const std::unique_ptr<Route>& other) {
    return other.get() != &route && other->fabric_address == at;
  };
  if (on_this_host_) {
    ShmNames& local = ShmNames::of_this_process();
    const std::lock_guard lock(local.mutex);
    const bool alive = !route.same_process || local.names.contains(route.name);
    if (alive && !std::ranges::any_of(routes_, uses)) (void)fi_av_remove(addresses_.get(), &at, 1, 0);
    return;
  }
  if (known_order_.size() <= kKept) return;
  const Bytes oldest = std::move(known_order_.front());
  known_order_.pop_front();
  at = known_.at(oldest);
  if (std::ranges::any_of(routes_, uses) || route.fabric_address == at) {
    known_order_.push_back(oldest);
    return;
  }
  known_.erase(oldest);
  reached_.erase(at);
  (void)fi_av_remove(addresses_.get(), &at, 1, 0);
}

}  // namespace spate::bmi::ofi
