// SPDX-License-Identifier: Apache-2.0
// SimDisk: time, processes, faults. sim_operations.cc has the operations.
#include "trove/sim/sim_disk.h"

#include <algorithm>

#include "base/check.h"
#include "trove/pieces.h"

namespace spate::trove {
namespace {

Duration transfer_time(std::uint64_t bytes, std::uint64_t bytes_per_second) {
  constexpr std::uint64_t kNs = 1'000'000'000;
  const std::uint64_t ns = bytes / bytes_per_second * kNs + bytes % bytes_per_second * kNs / bytes_per_second;
  return Duration(static_cast<std::int64_t>(ns));
}

constexpr std::uint32_t kDescriptorsPerDisk = 1U << 16U;
constexpr std::uint32_t kOpenDescriptors = kDescriptorsPerDisk / 2;  // the other half is for lent descriptors

int first_descriptor(std::uint32_t number) {
  return SimDisk::kFirstDescriptor + static_cast<int>(number * kDescriptorsPerDisk);
}

}  // namespace

SimDisk::SimDisk(const Clock& clock, Random& random, std::uint32_t number, SimDiskModel model)
    : clock_(clock),
      random_(random),
      number_(number),
      model_(model),
      channel_free_(std::max(1U, model.parallel)),
      lending_(first_descriptor(number) + static_cast<int>(kOpenDescriptors),
               static_cast<int>(kDescriptorsPerDisk - kOpenDescriptors)) {
  SPATE_CHECK(number <= kMaxNumber);
}

SimDisk::OperationPtr SimDisk::make_operation(const BytestreamRequest& request, void* user) {
  auto operation = std::make_unique<Operation>();
  operation->extents.assign(request.extents.begin(), request.extents.end());
  operation->memory.assign(request.memory.begin(), request.memory.end());
  operation->request = request;
  operation->request.extents = operation->extents;
  operation->request.memory = operation->memory;
  operation->done.user = user;
  if (request.op != BytestreamOp::kWrite) return operation;
  for (const MutableByteView& piece : request.memory) {
    operation->data.insert(operation->data.end(), piece.begin(), piece.end());
  }
  return operation;
}

SimDisk::ProcessId SimDisk::attach() {
  const ProcessId process = next_process_++;
  ended_[process];
  return process;
}

void SimDisk::detach(ProcessId process) {
  for (auto it = in_flight_.begin(); it != in_flight_.end();) {
    if (it->second->process != process) {
      ++it;
      continue;
    }
    carry_out_in_part(*it->second);
    it = in_flight_.erase(it);
  }
  ended_.erase(process);
}

bool SimDisk::in_memory(const Operation& operation) const {
  switch (operation.request.op) {
    case BytestreamOp::kRead:
    case BytestreamOp::kWrite: return model_.page_cache && !operation.request.direct;
    case BytestreamOp::kSync:
    case BytestreamOp::kRemove: return false;
    default: return true;
  }
}

MonoTime SimDisk::schedule(const Operation& operation) {
  Duration jitter{0};
  if (model_.jitter.count() > 0) {
    jitter = Duration(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(model_.jitter.count()) + 1)));
  }
  const std::uint64_t bytes = total_size(operation.extents);
  const BytestreamOp op = operation.request.op;
  const bool moves = op == BytestreamOp::kRead || op == BytestreamOp::kWrite;
  if (in_memory(operation)) {
    return clock_.now() + model_.memory_latency + transfer_time(moves ? bytes : 0, model_.memory_bytes_per_second) +
           jitter;
  }
  const FilePtr file = find(operation.request.id);
  const std::uint64_t moved = op == BytestreamOp::kSync ? (file == nullptr ? 0 : file->dirty_bytes())
                              : moves                   ? bytes
                                                        : 0;
  const Duration latency = op == BytestreamOp::kSync   ? model_.sync_latency
                           : op == BytestreamOp::kRead ? model_.read_latency
                                                       : model_.write_latency;
  // Each channel positions by itself; all transfers share the device's bandwidth, one after the other.
  MonoTime& channel = *std::min_element(channel_free_.begin(), channel_free_.end());
  const MonoTime positioned = std::max(clock_.now(), channel) + latency + jitter;
  transfer_free_ = std::max(positioned, transfer_free_) + transfer_time(moved, model_.bytes_per_second);
  channel = transfer_free_;
  return transfer_free_;
}

bool SimDisk::post(ProcessId process, const BytestreamRequest& request, void* user, BytestreamCompletion& done) {
  done = BytestreamCompletion{};
  done.user = user;
  done.status = check_request(request);
  if (request.direct && !fit_for_direct(request, model_.direct_alignment)) done.status = Errc::kInvalidArgument;
  if (request.direct && request.device_memory) done.status = Errc::kNotSupported;
  if (done.status != Errc::kOk) return true;
  OperationPtr operation = make_operation(request, user);
  operation->process = process;
  if (in_memory(*operation) && random_.chance(model_.immediate_per_mille, 1000)) {
    carry_out(*operation);
    done = std::move(operation->done);
    return true;
  }
  const MonoTime when = schedule(*operation);
  in_flight_.emplace(Due{when, next_order_++}, std::move(operation));
  return false;
}

MonoTime SimDisk::next_event_time() const {
  return in_flight_.empty() ? MonoTime::never() : in_flight_.begin()->first.when;
}

void SimDisk::run_until(MonoTime when) {
  while (!in_flight_.empty() && in_flight_.begin()->first.when <= when) {
    const OperationPtr operation = std::move(in_flight_.begin()->second);
    in_flight_.erase(in_flight_.begin());
    carry_out(*operation);
    ended_.at(operation->process).push_back(std::move(operation->done));
  }
}

std::size_t SimDisk::test(ProcessId process, std::span<BytestreamCompletion> out) {
  run_until(clock_.now());
  std::deque<BytestreamCompletion>& queue = ended_.at(process);
  std::size_t n = 0;
  for (; n < out.size() && !queue.empty(); ++n) {
    out[n] = std::move(queue.front());
    queue.pop_front();
  }
  return n;
}

void SimDisk::crash() {
  SPATE_CHECK(ended_.empty());
  ++statistics_.crashes;
  std::map<DatafileId, FilePtr> either = files_;
  either.insert(files_on_disk_.begin(), files_on_disk_.end());
  std::map<DatafileId, FilePtr> kept;
  for (const auto& [id, any] : either) {
    const auto newer = files_.find(id);
    const auto older = files_on_disk_.find(id);
    const FilePtr fresh = newer == files_.end() ? nullptr : newer->second;
    const FilePtr old = older == files_on_disk_.end() ? nullptr : older->second;
    // A name that was made or removed since the last sync may have reached the disk or not.
    const FilePtr& file = fresh == old || random_.chance(1, 2) ? old : fresh;
    if (file != nullptr) kept[id] = file;
  }
  used_bytes_ = 0;
  for (const auto& [id, file] : kept) {
    file->crash(random_);
    used_bytes_ += file->allocated_bytes();
  }
  files_ = kept;
  files_on_disk_ = kept;
  open_files_.clear();
  lending_.crash();
  std::fill(channel_free_.begin(), channel_free_.end(), MonoTime{});
  transfer_free_ = MonoTime{};
}

bool SimDisk::owns(int fd) const {
  const int first = first_descriptor(number_);
  return fd >= first && fd - first < static_cast<int>(kDescriptorsPerDisk);
}

Result<std::size_t> SimDisk::read_file(int fd, std::uint64_t offset, MutableByteView out) {
  const auto it = open_files_.find(fd);
  const FilePtr file = it == open_files_.end() ? nullptr : it->second.lock();
  if (file == nullptr) return Errc::kBadDescriptor;
  if (const Errc refused = faults_.refusal(BytestreamOp::kRead); refused != Errc::kOk) return refused;
  return file->read(offset, out);
}

namespace {

/// An open datafile of the simulation: its descriptor means something to SimDisk::read_file only.
class SimOpenFile final : public OpenDatafile {
 public:
  SimOpenFile(std::shared_ptr<SimFile> file, int fd) : file_(std::move(file)), fd_(fd) {}
  int descriptor() const override { return fd_; }

 private:
  std::shared_ptr<SimFile> file_;  // keeps the content after a removal
  int fd_;
};

}  // namespace

void SimDisk::open(const FilePtr& file, Operation& operation) {
  std::erase_if(open_files_, [](const auto& entry) { return entry.second.expired(); });
  const int first = first_descriptor(number_);
  for (std::uint32_t tries = 0; tries < kOpenDescriptors; ++tries) {
    const int fd = first + static_cast<int>(next_descriptor_++ % kOpenDescriptors);
    if (open_files_.count(fd) > 0) continue;
    open_files_[fd] = file;
    operation.done.file = std::make_shared<SimOpenFile>(file, fd);
    return;
  }
  operation.done.status = Errc::kTryAgain;
}

}  // namespace spate::trove
