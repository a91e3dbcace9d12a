// SPDX-License-Identifier: Apache-2.0
#include "flow/storage_writer.h"

#include "flow/extents.h"

namespace spate::flow {

job::Task<Result<void>> StorageWriter::write(datatype::SlotCursor& at, ByteView data, job::StopToken stop) {
  std::vector<Extent> extents;
  while (!data.empty()) {
    const std::uint64_t bytes = at.next_extents({data.size(), kMaxPieces}, extents);
    if (bytes == 0) {
      SPATE_CHECK(!at.done());  // the caller has measured the stream
      co_await device_.executor().yield();
      continue;
    }
    SPATE_CO_TRY(std::ignore, co_await write_extents(extents, data.first(bytes), WriteMode::kBuffered, stop));
    data = data.subspan(bytes);
  }
  co_return Result<void>();
}

job::Task<Result<void>> StorageWriter::write_at(std::uint64_t offset, ByteView data, WriteMode mode,
                                                job::StopToken stop) {
  const Extent extent{offset, data.size()};
  auto written = co_await write_extents({&extent, 1}, data, mode, stop);
  co_return written;
}

job::Task<Result<void>> StorageWriter::write_extents(std::span<const Extent> extents, ByteView data, WriteMode mode,
                                                     job::StopToken stop) {
  // kWrite only reads the memory; the request has one type of span for both directions.
  const MutableByteView from(const_cast<std::byte*>(data.data()), data.size());
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kWrite;
  request.id = share_.datafile;
  request.extents = extents;
  request.memory = {&from, 1};
  request.now = time_;
  request.may_rewrite_gaps = share_.may_rewrite_gaps;
  request.direct = mode != WriteMode::kBuffered;
  request.device_memory = mode == WriteMode::kDirectFromDevice;
  trove::BytestreamCompletion done;
  if (share_.carrier != nullptr) {
    SPATE_CO_TRY(done, co_await share_.carrier->write(request, stop));
  } else {
    const SchedulerRequest place{share_.asker.client, share_.datafile, extents.front().offset, data.size(),
                                 share_.asker.priority};
    SPATE_CO_TRY(const auto ticket, co_await device_.scheduler().admit(place, stop));
    done = co_await device_.storage().run(request);
  }
  if (done.status != Errc::kOk) co_return done.status;
  if (done.bytes != data.size()) co_return Error(Errc::kIoError, "the store wrote fewer bytes than it was given");
  registered_bytes_ += done.registered_bytes;
  if (!has_stat_ || done.stat.change_counter >= stat_.change_counter) stat_ = done.stat;
  has_stat_ = true;
  co_return Result<void>();
}

}  // namespace spate::flow
