// SPDX-License-Identifier: Apache-2.0
#include "trove/sim/sim_lending.h"

#include <utility>

namespace spate::trove {
namespace {

class SimLeasePage final : public LeasePage {
 public:
  SimLeasePage(int number, std::shared_ptr<SimPage> page, SimLending::Alive alive,
               std::map<int, std::shared_ptr<SimPage>>& pages)
      : LeasePage({Handle(page->words.handle), page->words.slot}, page->words.writable != 0),
        number_(number),
        page_(std::move(page)),
        alive_(std::move(alive)),
        pages_(pages) {}
  ~SimLeasePage() override {
    if (!kept_ && *alive_) pages_.erase(number_);
  }

  LeaseWords& words() const override {
    if (*alive_) return page_->words;
    own_.state.store(page_->words.state.load());
    return own_;
  }
  /// Only a number: closing it does nothing, since it is larger than any descriptor of the kernel.
  Result<UniqueFd> descriptor() const override { return UniqueFd(number_); }
  void keep() override { kept_ = true; }

 private:
  const int number_;
  const std::shared_ptr<SimPage> page_;
  const SimLending::Alive alive_;
  std::map<int, std::shared_ptr<SimPage>>& pages_;
  mutable LeaseWords own_;
  bool kept_ = false;
};

class SimLentDatafile final : public OpenDatafile {
 public:
  SimLentDatafile(std::shared_ptr<const SimLentFile> file, int number) : file_(std::move(file)), number_(number) {}
  int descriptor() const override { return number_; }

 private:
  std::shared_ptr<const SimLentFile> file_;
  int number_;
};

}  // namespace

std::optional<int> SimLending::free_number() {
  std::erase_if(lent_, [](const auto& entry) { return entry.second.expired(); });
  for (int tries = 0; tries < count_; ++tries) {
    const int number = first_ + static_cast<int>(next_++ % static_cast<std::uint32_t>(count_));
    if (!pages_.contains(number) && !lent_.contains(number) && !passed_.contains(number)) return number;
  }
  return std::nullopt;
}

Result<std::unique_ptr<LeasePage>> SimLending::make_page(const LeaseTitle& title, const Alive& alive) {
  const std::optional<int> number = free_number();
  if (!number) return Error(Errc::kBusy, "make a lease");
  auto page = std::make_shared<SimPage>();
  page->words.handle = title.datafile.handle.value;
  page->words.client = title.client.value;
  page->words.slot = title.datafile.slot;
  page->words.epoch = title.epoch;
  page->words.writable = title.writable ? 1 : 0;
  page->words.counter = title.counter;
  pages_[*number] = page;
  return std::unique_ptr<LeasePage>(std::make_unique<SimLeasePage>(*number, std::move(page), alive, pages_));
}

std::vector<std::unique_ptr<LeasePage>> SimLending::left_pages(const Alive& alive) {
  std::vector<std::unique_ptr<LeasePage>> left;
  for (const auto& [number, page] : pages_) {
    left.push_back(std::make_unique<SimLeasePage>(number, page, alive, pages_));
  }
  return left;
}

std::shared_ptr<const OpenDatafile> SimLending::lend(SimLentFile file) {
  const std::optional<int> number = free_number();
  if (!number) return nullptr;
  auto lent = std::make_shared<const SimLentFile>(std::move(file));
  lent_[*number] = lent;
  return std::make_shared<SimLentDatafile>(std::move(lent), *number);
}

Result<int> SimLending::pass(int fd) {
  Passed copy;
  if (const auto page = pages_.find(fd); page != pages_.end()) copy.page = page->second;
  if (const auto found = lent_.find(fd); found != lent_.end()) {
    if (const auto file = found->second.lock()) copy.file = *file;
  }
  if (copy.page == nullptr && !copy.file) return Error(Errc::kBadDescriptor, "pass a descriptor");
  const std::optional<int> number = free_number();
  if (!number) return Error(Errc::kBusy, "pass a descriptor");
  passed_[*number] = std::move(copy);
  return *number;
}

std::shared_ptr<SimPage> SimLending::take_page(int fd) {
  const auto found = passed_.find(fd);
  if (found == passed_.end() || found->second.page == nullptr) return nullptr;
  auto page = std::move(found->second.page);
  passed_.erase(found);
  return page;
}

std::optional<SimLentFile> SimLending::take_file(int fd) {
  const auto found = passed_.find(fd);
  if (found == passed_.end() || !found->second.file) return std::nullopt;
  auto file = std::move(found->second.file);
  passed_.erase(found);
  return file;
}

void SimLending::crash() {
  pages_.clear();
  lent_.clear();
  passed_.clear();
}

}  // namespace spate::trove
