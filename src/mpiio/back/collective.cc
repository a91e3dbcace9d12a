// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/collective.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "mpiio/exchange_plan.h"

namespace spate::mpiio {
namespace {

/// Numbers of bytes or pieces that each rank sends to each other rank, in the form of MPI_Alltoallv.
struct Counts {
  explicit Counts(int ranks) : counts(static_cast<std::size_t>(ranks)), starts(static_cast<std::size_t>(ranks)) {}
  std::vector<int> counts;
  std::vector<int> starts;
  /// Fills `starts` and returns the sum.
  std::size_t lay_out() {
    std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), 0);
    return static_cast<std::size_t>(starts.back()) + static_cast<std::size_t>(counts.back());
  }
};

/// A piece of the file, in the form in which ranks send it to aggregators.
struct Told {
  std::int64_t offset = 0;
  std::int64_t size = 0;
};

/// Memory for one piece, in bytes: its entries in the lists of an aggregator and of the ranks, and data made from
/// these.
constexpr std::uint64_t kPieceBytes = 128;
/// The least number of bytes that a rank may send to an aggregator at a time.
constexpr std::uint64_t kLeastRoom = 4096;

/// One access in two phases. Each round has these steps on every rank:
///   agree_on_plan() decides which pieces of this rank go to which aggregator
///   tell()          sends them to the aggregators
///   a write: sends the data, and writes it; a read: reads the requested bytes, and sends them back
/// A round is done in parts if an aggregator would need more memory than cb_buffer_size allows: many ranks may want the
/// same bytes, or pieces may be so small that their list is longer than their data.
class TwoPhases {
 public:
  TwoPhases(File& file, bool write, std::uint64_t first, const Memory& memory, const Domains& domains)
      : file_(file),
        write_(write),
        memory_(memory),
        domains_(domains),
        most_at_once_(room_of(file)),
        walk_(*file.view.flat, file.view.displacement, first, memory.bytes),
        whole_(memory.bytes == 0 ? nullptr : memory.whole()),
        out_(file.ranks),
        in_(file.ranks) {
    eof_ = INT64_MAX;
  }

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
      PMPI_Allreduce(MPI_IN_PLACE, worst.data(), 2, MPI_INT64_T, MPI_MAX, file_.comm);
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
      whole = rooms_[to] > kPieceBytes;
      if (!whole) break;
      const auto run = walk_.next(rooms_[to] - kPieceBytes, strip_end);
      if (!run) break;
      sent_[to].push_back({run->offset, static_cast<std::int64_t>(run->size)});
      stream_[to].push_back({static_cast<std::int64_t>(done_), run->size});
      done_ += run->size;
      rooms_[to] -= run->size + kPieceBytes;
    }
    most_planned_ = room - *std::min_element(rooms_.begin(), rooms_.end());
    return whole;
  }

  /// Tells each aggregator how much this rank will send. Returns how many bytes this rank will get, with the lists.
  std::uint64_t exchange_counts() {
    std::vector<std::array<int, 2>> mine(sent_.size());
    std::vector<std::array<int, 2>> theirs(sent_.size());
    for (std::size_t rank = 0; rank < sent_.size(); ++rank) {
      std::int64_t bytes = 0;
      for (const Told& piece : sent_[rank]) bytes += piece.size;
      out_.counts[rank] = static_cast<int>(bytes);
      mine[rank] = {static_cast<int>(sent_[rank].size()), out_.counts[rank]};
    }
    PMPI_Alltoall(mine.data(), 2, MPI_INT, theirs.data(), 2, MPI_INT, file_.comm);
    std::uint64_t heard = 0;
    pieces_in_.assign(sent_.size(), 0);
    for (std::size_t rank = 0; rank < theirs.size(); ++rank) {
      pieces_in_[rank] = theirs[rank][0];
      in_.counts[rank] = theirs[rank][1];
      heard += static_cast<std::uint64_t>(theirs[rank][0]) * kPieceBytes + static_cast<std::uint64_t>(theirs[rank][1]);
    }
    return heard;
  }

  /// Exchanges the lists of pieces, and lays out the data that follows.
  void tell() {
    Counts pieces_out(file_.ranks);
    Counts pieces_in(file_.ranks);
    std::vector<Told> told;
    for (std::size_t rank = 0; rank < sent_.size(); ++rank) {
      pieces_out.counts[rank] = static_cast<int>(sent_[rank].size() * 2);
      pieces_in.counts[rank] = pieces_in_[rank] * 2;
      told.insert(told.end(), sent_[rank].begin(), sent_[rank].end());
    }
    pieces_out.lay_out();
    std::vector<Told> heard(pieces_in.lay_out() / 2);
    PMPI_Alltoallv(told.data(), pieces_out.counts.data(), pieces_out.starts.data(), MPI_INT64_T, heard.data(),
                   pieces_in.counts.data(), pieces_in.starts.data(), MPI_INT64_T, file_.comm);
    out_bytes_.resize(out_.lay_out());
    in_bytes_.resize(in_.lay_out());
    std::vector<Asked> asked;
    asked.reserve(heard.size());
    std::uint64_t place = 0;
    for (const Told& piece : heard) {
      asked.push_back({piece.offset, static_cast<std::uint64_t>(piece.size), place});
      place += asked.back().size;
    }
    merged_ = merge(std::move(asked));
  }

  /// The bytes of this round's stream: the memory itself if it is one piece; otherwise a packed copy.
  char* round_stream() {
    if (whole_ != nullptr) return whole_ + round_first_;
    packed_.resize(done_ - round_first_);
    return packed_.data();
  }

  void write_round() {
    char* const stream = round_stream();
    if (whole_ == nullptr && done_ > round_first_) gather(memory_, round_first_, done_ - round_first_, stream);
    char* to = out_bytes_.data();
    for (const auto& runs : stream_) {
      for (const Walk::Run& run : runs) {
        std::memcpy(to, stream + (run.offset - static_cast<std::int64_t>(round_first_)), run.size);
        to += run.size;
      }
    }
    PMPI_Alltoallv(out_bytes_.data(), out_.counts.data(), out_.starts.data(), MPI_BYTE, in_bytes_.data(),
                   in_.counts.data(), in_.starts.data(), MPI_BYTE, file_.comm);
    finish_write();  // of the previous round; it continued while the ranks exchanged data
    if (outcome_ == 0 && merged_.bytes > 0) outcome_ = open_own(file_);
    if (outcome_ < 0 || merged_.bytes == 0) return;
    file_bytes_.resize(merged_.bytes);
    for (const Merged::Copy& copy : merged_.copies)
      std::memcpy(file_bytes_.data() + copy.stream, in_bytes_.data() + copy.place, copy.size);
    const std::vector<spate_range> ranges = file_ranges();
    const iovec memory{file_bytes_.data(), file_bytes_.size()};
    const long started = spate_write_list_start(file_.file, ranges.data(), ranges.size(), &memory, 1, &writing_);
    if (started < 0) outcome_ = started;
  }

  void finish_write() {
    if (writing_ == nullptr) return;
    const long written = spate_wait(std::exchange(writing_, nullptr));
    if (written < 0 && outcome_ == 0) outcome_ = written;
  }

  void read_round() {
    file_bytes_.assign(merged_.bytes, 0);
    if (outcome_ == 0 && merged_.bytes > 0) outcome_ = open_own(file_);
    if (merged_.bytes > 0 && outcome_ == 0) {
      const std::vector<spate_range> ranges = file_ranges();
      const iovec memory{file_bytes_.data(), file_bytes_.size()};
      const long got = spate_read_list(file_.file, ranges.data(), ranges.size(), &memory, 1);
      if (got < 0) outcome_ = got;
      if (got >= 0) note_end(static_cast<std::uint64_t>(got));
    }
    for (const Merged::Copy& copy : merged_.copies)
      std::memcpy(in_bytes_.data() + copy.place, file_bytes_.data() + copy.stream, copy.size);
    // The data takes the way back that the lists have taken.
    PMPI_Alltoallv(in_bytes_.data(), in_.counts.data(), in_.starts.data(), MPI_BYTE, out_bytes_.data(),
                   out_.counts.data(), out_.starts.data(), MPI_BYTE, file_.comm);
    char* const stream = round_stream();
    const char* from = out_bytes_.data();
    for (const auto& runs : stream_) {
      for (const Walk::Run& run : runs) {
        std::memcpy(stream + (run.offset - static_cast<std::int64_t>(round_first_)), from, run.size);
        from += run.size;
      }
    }
    if (whole_ == nullptr && done_ > round_first_) scatter(memory_, round_first_, done_ - round_first_, stream);
  }

  /// Call it after a short read, which shows that the file ends after `got` bytes of the stream at the latest.
  void note_end(std::uint64_t got) {
    for (const Merged::Range& range : merged_.ranges) {
      if (got < range.size) {
        eof_ = std::min(eof_, static_cast<std::int64_t>(range.offset + got));
        return;
      }
      got -= range.size;
    }
  }

  std::vector<spate_range> file_ranges() const {
    std::vector<spate_range> ranges;
    for (const Merged::Range& range : merged_.ranges) ranges.push_back({range.offset, range.size});
    return ranges;
  }

  File& file_;
  const bool write_;
  const Memory& memory_;
  const Domains& domains_;
  const std::uint64_t most_at_once_;  // the most that an aggregator gets at once: data, and kPieceBytes for each piece
  Walk walk_;
  char* const whole_;  // the memory's stream if it is one piece, else null

  std::uint64_t done_ = 0;                      // bytes of the memory's stream that are done
  std::uint64_t round_first_ = 0;               // done_ at the beginning of the round, or of its part
  std::uint64_t most_planned_ = 0;              // the most that this rank sends to one aggregator
  std::vector<std::uint64_t> rooms_;            // what this rank may still send to each rank
  std::vector<int> pieces_in_;                  // pieces that come from each rank
  std::vector<std::vector<Told>> sent_;         // pieces that were sent to each rank
  std::vector<std::vector<Walk::Run>> stream_;  // the same pieces as parts of the memory's stream
  Counts out_;                                  // bytes between this rank's memory and each aggregator
  Counts in_;                                   // bytes between this aggregator and each rank
  std::vector<char> out_bytes_;
  std::vector<char> in_bytes_;
  std::vector<char> packed_;
  std::vector<char> file_bytes_;
  Merged merged_;
  spate_op* writing_ = nullptr;
  long outcome_ = 0;
  std::int64_t eof_ = 0;
};

Params params_of(const File& file, std::uint64_t first, const Memory& memory, const Failure& own) {
  Params params;
  params.error = own.error_class;
  if (own.failed() || memory.bytes == 0) return params;
  params.first = file_offset(file.view, first);
  params.end = file_offset(file.view, first + memory.bytes - 1) + 1;
  params.bytes = static_cast<std::int64_t>(memory.bytes);
  params.pieces = 1;
  if (!file.view.flat->dense()) {
    std::uint64_t pieces = file.view.flat->pieces().size();
    for (const Level& level : file.view.flat->levels()) pieces *= level.count;
    params.pieces +=
        static_cast<std::int64_t>(memory.bytes / std::max<std::uint64_t>(file.view.flat->size() / pieces, 1));
  }
  return params;
}

std::vector<Params> params_of_all(const File& file, const Params& own) {
  static_assert(sizeof(Params) == 5 * sizeof(std::int64_t));
  std::vector<Params> all(static_cast<std::size_t>(file.ranks));
  PMPI_Allgather(&own, 5, MPI_INT64_T, all.data(), 5, MPI_INT64_T, file.comm);
  return all;
}

/// Each rank moves its own pieces, without two phases.
Moved move_alone(File& file, bool write, std::uint64_t first, const Memory& memory) {
  const long moved = transfer(file, write, first, memory);
  return {moved, agree(file, failure_of(moved, (write ? "write " : "read ") + file.path))};
}

Moved two_phases(File& file, bool write, std::uint64_t first, const Memory& memory,
                 const std::vector<Params>& all_params) {
  std::int64_t begin = INT64_MAX;
  std::int64_t end = 0;
  for (const Params& params : all_params) {
    if (params.bytes == 0) continue;
    begin = std::min(begin, params.first);
    end = std::max(end, params.end);
  }
  const int aggregators = static_cast<int>(file.aggregators.size());
  const std::uint64_t share = round_share(all_params, file.hints.cb_buffer_size, aggregators);
  // If a strip does not fit into a round, it is handled in parts.
  const std::uint64_t strip = std::min(std::max<std::uint64_t>(file.hints.striping_unit, 1), share);
  const Domains domains(begin, end, strip, aggregators, share);
  if (too_sparse(all_params, domains)) return move_alone(file, write, first, memory);
  TwoPhases work(file, write, first, memory, domains);
  const Failure own = failure_of(work.run(), (write ? "write " : "read ") + file.path);
  Moved moved{static_cast<long>(memory.bytes), agree(file, own)};
  if (!write && !moved.failure.failed()) {
    std::int64_t eof = work.eof();
    PMPI_Allreduce(MPI_IN_PLACE, &eof, 1, MPI_INT64_T, MPI_MIN, file.comm);
    if (eof != INT64_MAX) {
      const std::uint64_t there = stream_before(*file.view.flat, file.view.displacement, eof);
      moved.bytes = static_cast<long>(std::min(memory.bytes, there > first ? there - first : 0));
    }
  }
  return moved;
}

}  // namespace

Moved transfer_together(File& file, bool write, std::uint64_t first, const Memory& memory, const Failure& own) {
  const std::vector<Params> all_params = params_of_all(file, params_of(file, first, memory, own));
  for (std::size_t rank = 0; rank < all_params.size(); ++rank) {
    if (own.failed()) return {0, own};
    if (all_params[rank].error != MPI_SUCCESS)
      return {0, {static_cast<int>(all_params[rank].error), "spate: wrong arguments on rank " + std::to_string(rank)}};
  }
  const Choice choice = write ? file.hints.cb_write : file.hints.cb_read;
  bool together = choice == Choice::kEnable || (choice == Choice::kAutomatic && worth_two_phases(all_params));
  together = together && !file.atomic &&
             std::any_of(all_params.begin(), all_params.end(), [](const Params& params) { return params.bytes > 0; });
  if (together) return two_phases(file, write, first, memory, all_params);
  return move_alone(file, write, first, memory);
}

}  // namespace spate::mpiio
