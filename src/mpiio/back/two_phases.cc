// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/two_phases.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

namespace spate::mpiio {
namespace {

/// Numbers of bytes or pieces that each rank sends to each other rank, in the form of MPI_Alltoallv.
struct Counts {
  explicit Counts(int ranks) : counts(static_cast<std::size_t>(ranks)), starts(static_cast<std::size_t>(ranks)) {}
  std::vector<int> counts;
  std::vector<int> starts;
  Communicator::Parts parts() const { return {counts.data(), starts.data()}; }
  /// Fills `starts` and returns the sum.
  std::size_t lay_out() {
    std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), 0);
    return static_cast<std::size_t>(starts.back()) + static_cast<std::size_t>(counts.back());
  }
};

constexpr int kPiecesNumbers = 4;  // an entry of a list in 8-byte integers, the form in which ranks exchange it
static_assert(sizeof(Pieces) == kPiecesNumbers * sizeof(std::int64_t));

/// Memory for an entry of a list, in bytes: at the rank, on its way, and at the aggregator.
constexpr std::uint64_t kEntryBytes = 3 * sizeof(Pieces);
/// Memory for a piece that is a range of its own, in bytes, at the aggregator and in the request that it makes.
constexpr std::uint64_t kPieceBytes = 64;
/// The least number of bytes that a rank may send to an aggregator at a time.
constexpr std::uint64_t kLeastRoom = 4096;

/// Takes the file's buffers. An access that finds another one at work has its own.
std::unique_ptr<CollectiveBuffers> take_buffers(File& file) {
  const std::lock_guard lock(file.mutex);
  if (file.buffers == nullptr) return std::make_unique<CollectiveBuffers>();
  return std::move(file.buffers);
}

void give_buffers(File& file, std::unique_ptr<CollectiveBuffers> buffers) {
  const std::lock_guard lock(file.mutex);
  file.buffers = std::move(buffers);
}

/// One access in two phases. Each round has these steps on every rank:
///   agree_on_plan() decides which pieces of this rank go to which aggregator
///   tell()          sends them to the aggregators
///   a write: sends the data, and writes it; a read: reads the requested bytes, and sends them back
/// A round is done in parts if an aggregator would need more memory than cb_buffer_size allows: many ranks may want the
/// same bytes, or pieces may be so small that their list is longer than their data.
class TwoPhases {
 public:
  TwoPhases(const CollectiveAccess& work, const Domains& domains)
      : file_(work.file),
        communicator_(work.communicator),
        write_(work.write),
        memory_(work.memory),
        domains_(domains),
        most_at_once_(room_of(file_)),
        walk_(*file_.view.flat, file_.view.displacement, work.first, memory_.bytes),
        whole_(memory_.bytes == 0 ? nullptr : memory_.whole()),
        out_(file_.ranks),
        in_(file_.ranks),
        buffers_(take_buffers(file_)) {}
  ~TwoPhases() { give_buffers(file_, std::move(buffers_)); }
  TwoPhases(const TwoPhases&) = delete;
  TwoPhases& operator=(const TwoPhases&) = delete;

  /// Runs all rounds. Returns a negative errno of this rank's own reads and writes, or 0.
  long run() {
    std::uint64_t room = most_at_once_;
    for (std::int64_t round = 0; round < domains_.rounds();) {
      const bool whole = agree_on_plan(domains_.round_end(round), room);
      tell();
      if (write_) {
        write_round();
      } else {
        read_round();
      }
      if (!whole) continue;
      ++round;
      room = most_at_once_;
    }
    finish_write();
    return outcome_;
  }
  /// Offset of the first byte that a read did not find, as far as this rank knows.
  std::int64_t eof() const { return eof_; }

 private:
  int rank_of(int aggregator) const { return file_.aggregators[static_cast<std::size_t>(aggregator)]; }

  /// The most bytes of data and lists that an aggregator takes at once. An exchange counts with ints.
  static std::uint64_t room_of(const File& file) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 30U;
    const std::uint64_t least = kLeastRoom * static_cast<std::uint64_t>(file.ranks);
    return std::min(2 * std::max(file.hints.cb_buffer_size, least), kMost);
  }

  /// Plans the rest of a round that ends at `end`, or a part of it. False: this or another rank has more. `room`: the
  /// most bytes that this rank sends to an aggregator at once. It shrinks until no aggregator gets too much.
  bool agree_on_plan(std::int64_t end, std::uint64_t& room) {
    const Walk begin = walk_;
    round_first_ = done_;
    while (true) {
      const bool whole = plan(end, room);
      const std::uint64_t heard = exchange_counts();
      std::array<std::int64_t, 2> worst{static_cast<std::int64_t>((heard + most_at_once_ - 1) / most_at_once_),
                                        whole ? 0 : 1};
      communicator_.all_reduce(worst, MPI_MAX);
      if (worst[0] <= 1) return worst[1] == 0;
      room = std::max(std::min(room, most_planned_) / static_cast<std::uint64_t>(worst[0]), kLeastRoom);
      walk_ = begin;
      done_ = round_first_;
    }
  }

  /// False: some piece before `end` did not fit.
  bool plan(std::int64_t end, std::uint64_t room) {
    const auto ranks = static_cast<std::size_t>(file_.ranks);
    sent_.assign(ranks, {});
    stream_.assign(ranks, {});
    rooms_.assign(ranks, room);
    std::int64_t strip_end = INT64_MIN;
    std::size_t to = 0;
    bool whole = true;
    for (auto next = walk_.peek(); next && *next < end; next = walk_.peek()) {
      if (*next >= strip_end) {
        strip_end = std::min(end, domains_.strip_end(*next));
        to = static_cast<std::size_t>(rank_of(domains_.owner(*next)));
      }
      whole = rooms_[to] > kPieceBytes + kEntryBytes;
      if (!whole) break;
      const auto run = walk_.next(rooms_[to] - kPieceBytes - kEntryBytes, strip_end);
      if (!run) break;
      const std::size_t entries = sent_[to].size();
      append(sent_[to], run->offset, static_cast<std::int64_t>(run->size));
      rooms_[to] -= run->size + kPieceBytes + (sent_[to].size() - entries) * kEntryBytes;
      append_run(stream_[to], {static_cast<std::int64_t>(done_), run->size});
      done_ += run->size;
    }
    most_planned_ = room - *std::min_element(rooms_.begin(), rooms_.end());
    return whole;
  }

  /// Appends a part of the memory's stream, which merges with the last one if it follows it directly.
  static void append_run(std::vector<Walk::Run>& runs, Walk::Run run) {
    if (!runs.empty() && runs.back().offset + static_cast<std::int64_t>(runs.back().size) == run.offset) {
      runs.back().size += run.size;
    } else {
      runs.push_back(run);
    }
  }

  /// Tells each aggregator how much this rank will send. Returns how many bytes this rank will get, with the lists.
  std::uint64_t exchange_counts() {
    std::vector<std::array<int, 3>> mine(sent_.size());
    std::vector<std::array<int, 3>> theirs(sent_.size());
    for (std::size_t rank = 0; rank < sent_.size(); ++rank) {
      std::int64_t pieces = 0;
      std::int64_t bytes = 0;
      for (const Pieces& entry : sent_[rank]) {
        pieces += entry.count;
        bytes += entry.bytes();
      }
      out_.counts[rank] = static_cast<int>(bytes);
      mine[rank] = {static_cast<int>(sent_[rank].size()), static_cast<int>(pieces), out_.counts[rank]};
    }
    communicator_.all_to_all(mine.data(), 3, MPI_INT, theirs.data());
    std::uint64_t heard = 0;
    entries_in_.assign(sent_.size(), 0);
    for (std::size_t rank = 0; rank < theirs.size(); ++rank) {
      const auto& [entries, pieces, bytes] = theirs[rank];
      entries_in_[rank] = entries;
      in_.counts[rank] = bytes;
      heard += static_cast<std::uint64_t>(entries) * kEntryBytes + static_cast<std::uint64_t>(pieces) * kPieceBytes +
               static_cast<std::uint64_t>(bytes);
    }
    return heard;
  }

  /// Exchanges the lists of pieces, and lays out the data that follows. This rank's own data stays in its memory.
  void tell() {
    Counts entries_out(file_.ranks);
    Counts entries_in(file_.ranks);
    std::vector<Pieces> told;
    for (std::size_t rank = 0; rank < sent_.size(); ++rank) {
      entries_out.counts[rank] = static_cast<int>(sent_[rank].size() * kPiecesNumbers);
      entries_in.counts[rank] = entries_in_[rank] * kPiecesNumbers;
      told.insert(told.end(), sent_[rank].begin(), sent_[rank].end());
    }
    entries_out.lay_out();
    heard_.resize(entries_in.lay_out() / kPiecesNumbers);
    communicator_.all_to_all_v(told.data(), entries_out.parts(), MPI_INT64_T, heard_.data(), entries_in.parts());
    heard_of_.clear();
    for (std::size_t rank = 0; rank < sent_.size(); ++rank) {
      heard_of_.emplace_back(heard_.data() + entries_in.starts[rank] / kPiecesNumbers,
                             static_cast<std::size_t>(entries_in_[rank]));
    }
    ranges_ = union_of(heard_of_);
    range_bytes_ = 0;
    for (const FileRange& range : ranges_) range_bytes_ += range.size;
    const auto own = static_cast<std::size_t>(file_.rank);
    out_size_ = out_.lay_out();
    in_.counts[own] = 0;
    out_.counts[own] = 0;
    in_size_ = in_.lay_out();
  }

  /// The bytes of this round's stream: the memory itself if it is one piece; otherwise a packed copy.
  char* round_stream() {
    return whole_ != nullptr ? whole_ + round_first_ : buffers_->packed.fit(done_ - round_first_);
  }

  char* at(char* stream, const Walk::Run& run) const {
    return stream + (run.offset - static_cast<std::int64_t>(round_first_));
  }

  /// Memory for what this rank sends or gets, in the order of the ranks. If it is one part of the stream, it is that.
  char* out_data(char* stream) {
    const Walk::Run* only = nullptr;
    for (const auto& runs : stream_) {
      if (runs.empty()) continue;
      if (only != nullptr || runs.size() > 1) return buffers_->out.fit(out_size_);
      only = runs.data();
    }
    return only == nullptr ? stream : at(stream, *only);
  }

  /// Calls move(part of the stream, its place in out_data()) for all parts.
  template <typename Move>
  void for_out_parts(char* stream, char* out, const Move& move) {
    for (const auto& runs : stream_) {
      for (const Walk::Run& run : runs) {
        if (out != at(stream, run)) move(at(stream, run), out, run.size);
        out += run.size;
      }
    }
  }

  /// Calls move(place of a piece in `in`, its place in `data`, its size) for the pieces of all ranks. `own`: where the
  /// bytes of this rank are, which are not in `in`.
  template <typename Move>
  void for_pieces(char* in, char* own, char* data, const Move& move) {
    for (int rank = 0; rank < file_.ranks; ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      char* place = rank == file_.rank ? own : in + in_.starts[index];
      RangeCursor cursor(ranges_);
      for (const Pieces& entry : heard_of_[index]) {
        const auto size = static_cast<std::size_t>(entry.size);
        for (std::int64_t i = 0; i < entry.count; ++i, place += size)
          move(place, data + cursor.place(static_cast<std::uint64_t>(entry.piece_offset(i))), size);
      }
    }
  }

  void write_round() {
    char* const stream = round_stream();
    if (whole_ == nullptr && done_ > round_first_) gather(memory_, round_first_, done_ - round_first_, stream);
    char* const out = out_data(stream);
    for_out_parts(stream, out, [](const char* part, char* to, std::size_t size) { std::memcpy(to, part, size); });
    char* const in = buffers_->in.fit(in_size_);
    communicator_.all_to_all_v(out, out_.parts(), MPI_BYTE, in, in_.parts());
    finish_write();  // of the previous round; it continued while the ranks exchanged data
    if (outcome_ == 0 && range_bytes_ > 0) outcome_ = open_own(file_);
    if (outcome_ < 0 || range_bytes_ == 0) return;
    char* const data = buffers_->data.fit(range_bytes_);
    for_pieces(in, out + out_.starts[static_cast<std::size_t>(file_.rank)], data,
               [](const char* piece, char* to, std::size_t size) { std::memcpy(to, piece, size); });
    const std::vector<spate_range> ranges = file_ranges();
    const iovec memory{data, range_bytes_};
    const long started = spate_write_list_start(file_.file, ranges.data(), ranges.size(), &memory, 1, &writing_);
    if (started < 0) outcome_ = started;
  }

  void finish_write() {
    if (writing_ == nullptr) return;
    const long written = spate_wait(std::exchange(writing_, nullptr));
    if (written < 0 && outcome_ == 0) outcome_ = written;
  }

  void read_round() {
    char* const data = buffers_->data.fit(range_bytes_);
    if (outcome_ == 0 && range_bytes_ > 0) outcome_ = open_own(file_);
    std::uint64_t got = 0;
    if (range_bytes_ > 0 && outcome_ == 0) {
      const std::vector<spate_range> ranges = file_ranges();
      const iovec memory{data, range_bytes_};
      const long read = spate_read_list(file_.file, ranges.data(), ranges.size(), &memory, 1);
      if (read < 0) outcome_ = read;
      if (read >= 0) note_end(got = static_cast<std::uint64_t>(read));
    }
    std::memset(data + got, 0, range_bytes_ - got);
    char* const stream = round_stream();
    char* const out = out_data(stream);
    char* const in = buffers_->in.fit(in_size_);
    for_pieces(in, out + out_.starts[static_cast<std::size_t>(file_.rank)], data,
               [](char* piece, const char* from, std::size_t size) { std::memcpy(piece, from, size); });
    // The data takes the way back that the lists have taken.
    communicator_.all_to_all_v(in, in_.parts(), MPI_BYTE, out, out_.parts());
    for_out_parts(stream, out, [](char* part, const char* from, std::size_t size) { std::memcpy(part, from, size); });
    if (whole_ == nullptr && done_ > round_first_) scatter(memory_, round_first_, done_ - round_first_, stream);
  }

  /// Call it after a short read, which shows that the file ends after `got` bytes of the stream at the latest.
  void note_end(std::uint64_t got) {
    for (const FileRange& range : ranges_) {
      if (got < range.size) {
        eof_ = std::min(eof_, static_cast<std::int64_t>(range.offset + got));
        return;
      }
      got -= range.size;
    }
  }

  std::vector<spate_range> file_ranges() const {
    std::vector<spate_range> ranges;
    for (const FileRange& range : ranges_) ranges.push_back({range.offset, range.size});
    return ranges;
  }

  File& file_;
  const Communicator communicator_;
  const bool write_;
  const Memory& memory_;
  const Domains& domains_;
  const std::uint64_t most_at_once_;  // the most that an aggregator gets at once: data and lists
  Walk walk_;
  char* const whole_;  // the memory's stream if it is one piece, else null

  std::uint64_t done_ = 0;                      // bytes of the memory's stream that are done
  std::uint64_t round_first_ = 0;               // done_ at the beginning of the round, or of its part
  std::uint64_t most_planned_ = 0;              // the most that this rank sends to one aggregator
  std::vector<std::uint64_t> rooms_;            // what this rank may still send to each rank
  std::vector<std::vector<Pieces>> sent_;       // pieces that were sent to each rank
  std::vector<std::vector<Walk::Run>> stream_;  // the same pieces as parts of the memory's stream
  std::vector<int> entries_in_;                 // entries that come from each rank
  std::vector<Pieces> heard_;
  std::vector<std::span<const Pieces>> heard_of_;  // the pieces of each rank
  std::vector<FileRange> ranges_;                  // what this aggregator reads or writes
  std::uint64_t range_bytes_ = 0;
  Counts out_;                // bytes between this rank's memory and each aggregator
  Counts in_;                 // bytes between this aggregator and each rank
  std::size_t out_size_ = 0;  // with this rank's own bytes, which are not exchanged
  std::size_t in_size_ = 0;
  std::unique_ptr<CollectiveBuffers> buffers_;
  spate_op* writing_ = nullptr;
  long outcome_ = 0;
  std::int64_t eof_ = INT64_MAX;
};

}  // namespace

Exchanged move_in_two_phases(const CollectiveAccess& work, const Domains& domains) {
  TwoPhases phases(work, domains);
  const long outcome = phases.run();
  return {outcome, phases.eof()};
}

}  // namespace spate::mpiio
