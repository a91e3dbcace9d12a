// SPDX-License-Identifier: Apache-2.0
// SimDisk: the effect of each operation at the instant of its completion.
#include <algorithm>

#include "trove/sim/sim_disk.h"

namespace spate::trove {
namespace {

/// The least size of the datafile after the operation, bytes; 0: it does not grow.
std::uint64_t end_of(const BytestreamRequest& request, std::span<const Extent> extents) {
  if (request.op == BytestreamOp::kTruncate) return request.size;
  const bool grows =
      request.op == BytestreamOp::kWrite || request.op == BytestreamOp::kAllocate || request.op == BytestreamOp::kCopy;
  std::uint64_t end = 0;
  for (const Extent& extent : extents) end = std::max(end, grows ? extent.offset + extent.size : 0);
  return end;
}

}  // namespace

SimDisk::FilePtr SimDisk::find(const DatafileId& id) const {
  const auto it = files_.find(id);
  return it == files_.end() ? nullptr : it->second;
}

std::uint64_t SimDisk::pages_free() const {
  return (model_.capacity_bytes - std::min(model_.capacity_bytes, used_bytes_)) / SimFile::kPage;
}

void SimDisk::read(const SimFile& file, Operation& operation) {
  std::size_t piece = 0;
  std::size_t in_piece = 0;
  for (const Extent& extent : operation.extents) {
    for (std::uint64_t at = 0; at < extent.size;) {
      while (in_piece == operation.memory[piece].size()) {
        ++piece;
        in_piece = 0;
      }
      const MutableByteView room = operation.memory[piece].subspan(in_piece);
      const std::size_t want = static_cast<std::size_t>(std::min<std::uint64_t>(room.size(), extent.size - at));
      const std::size_t n = file.read(extent.offset + at, room.first(want));
      operation.done.bytes += n;
      if (n < want) return;
      at += n;
      in_piece += n;
    }
  }
}

/// Writes a piece that lies in one page.
Errc SimDisk::write_piece(SimFile& file, std::uint64_t offset, ByteView piece) {
  const std::uint64_t missing = file.missing_pages({offset, piece.size()});
  if (missing > pages_free()) return Errc::kNoSpace;
  file.write(offset, piece);
  used_bytes_ += missing * SimFile::kPage;
  return Errc::kOk;
}

Result<std::size_t> SimDisk::write_lent(const SimLentFile& lent, std::uint64_t offset, ByteView data) {
  if (find(lent.id) != lent.file) {  // fenced: the write has no effect and uses no counted space
    lent.file->write(offset, data);
    return data.size();
  }
  std::size_t done = 0;
  while (done < data.size()) {
    const std::uint64_t at = offset + done;
    const auto size =
        static_cast<std::size_t>(std::min<std::uint64_t>(SimFile::kPage - at % SimFile::kPage, data.size() - done));
    const Errc status = write_piece(*lent.file, at, data.subspan(done, size));
    if (status != Errc::kOk && done == 0) return status;
    if (status != Errc::kOk) break;
    done += size;
  }
  return done;
}

Errc SimDisk::write(SimFile& file, Operation& operation, std::uint64_t limit) {
  ByteView rest(operation.data);
  rest = rest.first(static_cast<std::size_t>(std::min<std::uint64_t>(limit, rest.size())));
  for (const Extent& extent : operation.extents) {
    for (std::uint64_t at = 0; at < extent.size && !rest.empty();) {
      const std::uint64_t offset = extent.offset + at;
      const std::uint64_t to_page_end = SimFile::kPage - offset % SimFile::kPage;
      const std::size_t size =
          static_cast<std::size_t>(std::min({to_page_end, extent.size - at, std::uint64_t{rest.size()}}));
      const Errc status = write_piece(file, offset, rest.first(size));
      if (status != Errc::kOk) return status;
      rest = rest.subspan(size);
      operation.done.bytes += size;
      at += size;
    }
  }
  return Errc::kOk;
}

void SimDisk::cut(SimFile& file, const BytestreamRequest& request) {
  const std::uint64_t before = file.allocated_bytes();
  if (request.op == BytestreamOp::kTruncate) file.truncate(request.size);
  for (const Extent& extent : request.extents) {
    if (request.op == BytestreamOp::kPunch) file.punch(extent);
  }
  used_bytes_ -= before - file.allocated_bytes();
  file.changed(request.now);
}

void SimDisk::remove(const DatafileId& id) {
  const FilePtr file = find(id);
  if (file == nullptr) return;
  used_bytes_ -= file->allocated_bytes();
  files_.erase(id);
}

/// Copies all bytes, and writes holes as zeros: a copy on the simulated disk keeps no holes.
Errc SimDisk::copy(SimFile& file, const Operation& operation) {
  const FilePtr source = find(operation.request.source);
  const Extent& to = operation.extents.front();
  Bytes data(static_cast<std::size_t>(to.size));
  if (source != nullptr) std::ignore = source->read(operation.request.source_offset, data);
  const std::uint64_t missing = file.missing_pages(to);
  if (missing > pages_free()) return Errc::kNoSpace;
  file.write(to.offset, data);
  used_bytes_ += missing * SimFile::kPage;
  file.changed(operation.request.now);
  return Errc::kOk;
}

void SimDisk::replace(const DatafileId& id) {
  auto fresh = std::make_shared<SimFile>(*find(id));
  fresh->sync();
  files_[id] = fresh;
  files_on_disk_[id] = std::move(fresh);
}

void SimDisk::lend(const FilePtr& file, Operation& operation) {
  operation.done.file = lending_.lend({file, operation.request.id, operation.request.access});
  if (operation.done.file == nullptr) operation.done.status = Errc::kTryAgain;
}

Errc SimDisk::allocate(SimFile& file, const Operation& operation) {
  for (const Extent& extent : operation.extents) {
    const std::uint64_t missing = file.missing_pages(extent);
    if (missing > pages_free()) return Errc::kNoSpace;
    file.allocate(extent);
    if (operation.request.extend) file.extend(extent.offset + extent.size);
    used_bytes_ += missing * SimFile::kPage;
  }
  return Errc::kOk;
}

void SimDisk::sync(const DatafileId& id) {
  ++statistics_.syncs;
  const FilePtr file = find(id);
  if (file == nullptr) {
    files_on_disk_.erase(id);
    return;
  }
  file->sync();
  files_on_disk_[id] = file;
}

void SimDisk::carry_out_in_part(Operation& operation) {
  // The process is dead: a read must not touch its memory, and a write has its own copy of the data.
  if (operation.request.op == BytestreamOp::kRead || !random_.chance(2, 3)) return;
  if (operation.request.op == BytestreamOp::kWrite && random_.chance(1, 2) && !operation.data.empty()) {
    operation.data.resize(random_.below(operation.data.size()));
  }
  carry_out(operation);
}

/// Applies the effects that a failed operation may still have.
void SimDisk::fail(const Operation& operation) {
  if (operation.request.op != BytestreamOp::kSync) return;
  ++statistics_.failed_syncs;
  if (const FilePtr file = find(operation.request.id)) file->fail_write_back(random_);
}

void SimDisk::carry_out(Operation& operation) {
  ++statistics_.operations;
  const BytestreamRequest& request = operation.request;
  operation.done.status = faults_.refusal(request.op);
  if (operation.done.status == Errc::kOk && end_of(request, operation.extents) > model_.max_datafile_bytes)
    operation.done.status = Errc::kFileTooBig;
  if (operation.done.status != Errc::kOk) return fail(operation);
  operation.done.status = faults_.next(request.op);
  if (operation.done.status != Errc::kOk && request.op != BytestreamOp::kWrite) return fail(operation);
  if (request.op == BytestreamOp::kRemove) return remove(request.id);
  if (request.op == BytestreamOp::kSync) sync(request.id);
  FilePtr file = find(request.id);
  const bool creates = (request.op == BytestreamOp::kWrite && !operation.data.empty()) ||
                       (request.op == BytestreamOp::kTruncate && request.size > 0) ||
                       (request.op == BytestreamOp::kAllocate && !operation.extents.empty()) ||
                       (request.op == BytestreamOp::kPunch && !operation.extents.empty()) ||
                       (request.op == BytestreamOp::kCopy && operation.extents.front().size > 0);
  if (file == nullptr && creates) file = files_[request.id] = std::make_shared<SimFile>();
  if (file == nullptr) {
    if (request.op == BytestreamOp::kOpen || request.op == BytestreamOp::kLend) operation.done.status = Errc::kNotFound;
    if (request.op == BytestreamOp::kDataRanges) operation.done.complete_to = kMaxDatafileBytes;
    return;
  }
  if (request.op == BytestreamOp::kOpen) open(file, operation);
  if (request.op == BytestreamOp::kLend) lend(file, operation);
  if (request.op == BytestreamOp::kReplace) replace(request.id);
  carry_out_on(*file, operation);
  operation.done.stat = file->stat();
}

void SimDisk::carry_out_on(SimFile& file, Operation& operation) {
  const BytestreamRequest& request = operation.request;
  switch (request.op) {
    case BytestreamOp::kRead:
      read(file, operation);
      statistics_.bytes_read += operation.done.bytes;
      break;
    case BytestreamOp::kWrite: {
      if (operation.data.empty()) break;
      const Errc fault = operation.done.status;
      const std::uint64_t limit = fault == Errc::kOk ? operation.data.size() : random_.below(operation.data.size() + 1);
      const Errc status = write(file, operation, limit);
      operation.done.status = fault != Errc::kOk ? fault : status;
      statistics_.bytes_written += operation.done.bytes;
      file.changed(request.now);
      break;
    }
    case BytestreamOp::kTruncate:
    case BytestreamOp::kPunch: cut(file, request); break;
    case BytestreamOp::kNoteChange: file.changed(request.now); break;
    case BytestreamOp::kAllocate:
      operation.done.status = allocate(file, operation);
      file.changed(request.now);
      break;
    case BytestreamOp::kCopy:
      if (operation.extents.front().size > 0) operation.done.status = copy(file, operation);
      break;
    case BytestreamOp::kDataRanges:
      operation.done.complete_to = file.data_ranges(request.size, request.max_ranges, operation.done.ranges);
      break;
    default: break;
  }
}

std::optional<Bytes> SimDisk::content(const DatafileId& id) const {
  const FilePtr file = find(id);
  if (file == nullptr) return std::nullopt;
  Bytes out(file->stat().size);
  std::ignore = file->read(0, out);
  return out;
}

std::vector<DatafileId> SimDisk::list(const DatafileId& after, std::size_t max) const {
  std::vector<DatafileId> page;
  for (auto it = files_.upper_bound(after); it != files_.end() && page.size() < max; ++it) page.push_back(it->first);
  return page;
}

SpaceInfo SimDisk::space() const {
  SpaceInfo space;
  space.total_bytes = model_.capacity_bytes;
  space.free_bytes = pages_free() * SimFile::kPage;
  space.total_files = std::uint64_t{1} << 32U;
  space.free_files = space.total_files - files_.size();
  return space;
}

DirectAbility SimDisk::direct() const {
  return {model_.direct_alignment, model_.direct_alignment > 0 ? "" : "this simulated disk has no direct access"};
}

}  // namespace spate::trove
