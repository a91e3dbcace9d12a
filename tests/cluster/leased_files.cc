// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/leased_files.h"

#include <algorithm>
#include <cerrno>

namespace spate::cluster {
namespace {

constexpr std::uint64_t kUsualNs = 300'000;
constexpr Duration kLookAgain = std::chrono::milliseconds(2);
constexpr std::uint64_t kStuckNs = 12'000'000'000;

}  // namespace

/// One lease in the view of the program. After the death of its process it uses memory of its own.
class SimLeasedFiles::File final : public client::LeasedFile, private client::LocalIo {
 public:
  File(SimLeasedFiles& owner, trove::SimDisk& disk, std::shared_ptr<trove::SimPage> page, trove::SimLentFile leased)
      : owner_(owner), disk_(disk), page_(std::move(page)), leased_(std::move(leased)) {}

  LeaseWords& words() override { return owner_.alive_ ? page_->words : own_; }
  bool readable() const override { return leased_.access != trove::LendAccess::kWrite; }
  std::optional<std::uint64_t> size() const override {
    if (!owner_.alive_) return std::nullopt;
    return leased_.file->size();
  }
  bool has_space() const override { return true; }
  void disown() override {}
  bool try_now(client::LocalMove& move) override { return move.try_now(*this); }
  job::Task<void> finish(client::LocalMove& move) override {
    const bool counted = move.is_write() && owner_.alive_;
    const auto place = owner_.under_way_.insert(owner_.under_way_.end(), {this, &move});
    if (!counted) owner_.under_way_.erase(place);
    Duration pause(static_cast<std::int64_t>(1 + owner_.random_.below(kUsualNs)));
    do {
      std::ignore = co_await owner_.executor_.sleep(pause);
      pause = kLookAgain;
    } while (owner_.alive_ && owner_.stuck_ && move.is_write());
    if (!owner_.alive_) co_return;
    if (counted) owner_.under_way_.erase(place);
    move.finish(*this);
  }

  trove::SimDisk& disk() { return disk_; }
  const trove::SimLentFile& leased() const { return leased_; }

 private:
  ssize_t move_pieces(const Pieces& pieces, bool is_write, bool wait) override {
    if (!owner_.alive_) return -EIO;
    if (!wait && ((owner_.stuck_ && is_write) || owner_.random_.chance(2, 3))) return -EAGAIN;
    std::size_t moved = 0;
    for (int i = 0; i < pieces.count; ++i) {
      const MutableByteView memory(static_cast<std::byte*>(pieces.first[i].iov_base), pieces.first[i].iov_len);
      const auto n = move_one(pieces.offset + moved, memory, is_write);
      if (!n && moved == 0) return -ENOSPC;
      moved += n.value_or(0);
      if (n.value_or(0) < memory.size()) break;
    }
    owner_.machine_.moved(moved);
    return static_cast<ssize_t>(moved);
  }
  std::optional<std::size_t> move_one(std::uint64_t offset, MutableByteView memory, bool is_write) {
    if (!is_write) return leased_.file->read(offset, memory);
    const auto n = disk_.write_lent(leased_, offset, memory);
    return n ? std::optional(*n) : std::nullopt;
  }

  SimLeasedFiles& owner_;
  trove::SimDisk& disk_;
  const std::shared_ptr<trove::SimPage> page_;
  const trove::SimLentFile leased_;
  LeaseWords own_;
};

Result<std::unique_ptr<client::LeasedFile>> SimLeasedFiles::open(UniqueFd page, UniqueFd file, bool /*for_writing*/) {
  trove::SimDisk* const disk = machine_.disk_of(file.get());
  if (disk == nullptr) return Error(Errc::kProtocol, "no descriptor of this machine");
  auto shared = disk->lending().take_page(page.get());
  auto leased = disk->lending().take_file(file.get());
  if (shared == nullptr || !leased) return Error(Errc::kProtocol, "not the descriptors of a lease");
  return std::unique_ptr<client::LeasedFile>(
      std::make_unique<File>(*this, *disk, std::move(shared), *std::move(leased)));
}

void SimLeasedFiles::leave_behind(const UnderWay& write) {
  /// Keeps the pieces that a write would have written.
  class Recorder final : public client::LocalIo {
   public:
    ssize_t move_pieces(const Pieces& pieces, bool /*is_write*/, bool /*wait*/) override {
      std::uint64_t offset = pieces.offset;
      for (int i = 0; i < pieces.count; ++i) {
        const ByteView memory(static_cast<const std::byte*>(pieces.first[i].iov_base), pieces.first[i].iov_len);
        kept.push_back({offset, to_bytes(memory)});
        offset += memory.size();
      }
      return static_cast<ssize_t>(offset - pieces.offset);
    }
    std::vector<Piece> kept;
  };
  Recorder recorder;
  write.move->finish(recorder);
  std::vector<Piece> pieces = std::move(recorder.kept);
  if (random_.chance(1, 3)) pieces.resize(random_.below(pieces.size() + 1));
  if (!pieces.empty() && random_.chance(1, 3)) pieces.back().data.resize(random_.below(pieces.back().data.size() + 1));
  trove::SimDisk& disk = write.file->disk();
  UniqueFunction<void()> land(
      [&disk, leased = write.file->leased(), crashes = disk.statistics().crashes, kept = std::move(pieces)] {
        if (disk.statistics().crashes != crashes) return;
        for (const Piece& piece : kept) std::ignore = disk.write_lent(leased, piece.offset, piece.data);
      });
  if (!stuck_ || random_.chance(1, 4)) return land();
  machine_.later(Duration(static_cast<std::int64_t>(random_.below(kStuckNs))), std::move(land));
}

void SimLeasedFiles::die() {
  if (!alive_) return;
  for (const UnderWay& write : under_way_) leave_behind(write);
  under_way_.clear();
  alive_ = false;
}

}  // namespace spate::cluster
