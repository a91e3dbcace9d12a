// SPDX-License-Identifier: Apache-2.0
// The transmission phase of a Connection.
#include <algorithm>
#include <cstring>

#include "log/log.h"
#include "nbd/connection.h"

namespace spate::nbd {
namespace {

/// A payload up to this size is collected in the input buffer.
constexpr std::size_t kSmallPayload = 64UL * 1024;
/// A larger write goes to a worker, so that this loop can serve others.
constexpr std::size_t kMaxWriteInLoop = 1UL << 20U;
/// More descriptors than any client needs in one block status.
constexpr std::size_t kMaxStatusExtents = 1024;

/// Bytes that a request holds while it is in flight.
std::size_t memory_of(const Request& request) {
  return request.command == Command::kRead || request.command == Command::kWrite ? request.length : 0;
}

}  // namespace

/// Takes the next request from the input. False: it is not complete yet.
bool Connection::take_request() {
  if (payload_size_ > 0) {
    if (payload_have_ < payload_size_) return false;
    end_payload();
    return true;
  }
  const ByteView in = input_.view();
  if (in.size() < kRequestBytes) return false;
  const auto request = decode_request(in);
  if (!request) {
    abandon("the client sent bytes that are not a request");
    return false;
  }
  if (request->command == Command::kWrite) return take_write(*request);
  expect_payload_ = false;
  input_.take(kRequestBytes);
  ++traffic_.requests;
  if (request->command == Command::kDisconnect) {
    input_ended_ = true;
    return false;
  }
  const Verdict verdict = export_->judge(*request);
  if (verdict.failure != Failure::kNone) {
    answer(*request, verdict.failure);
  } else {
    begin_request(*request);
  }
  return true;
}

/// The file's size is read once for all requests that have arrived together, since it is at most as old as any of them.
bool Connection::take_write(const Request& request) {
  const ByteView in = input_.view().subspan(kRequestBytes);
  if (request.length <= kSmallPayload && in.size() < request.length) {
    input_.make_room(kRequestBytes + request.length);  // for all of it, so that it need not be moved again
    return false;
  }
  const Verdict verdict = export_->judge(request);
  if (verdict.connection_lost) {
    ++traffic_.requests;
    answer(request, verdict.failure);
    input_ended_ = true;
    return false;
  }
  const std::size_t have = std::min<std::size_t>(in.size(), request.length);
  const bool large = request.length >= world_.spliced_from && request.length <= Pipes::kBytes &&
                     transport_->can_send_file() && export_->device().takes_pipes();
  const bool piped = large && verdict.failure == Failure::kNone;
  if (have < request.length) {
    if (piped && have == 0) payload_.pipe = world_.pipes.take();
    // Otherwise the request stays in the input meanwhile.
    if (!payload_.pipe && !payload_memory(request.length, payload_)) return false;
  }
  ++traffic_.requests;
  expect_payload_ = piped;
  input_.take(kRequestBytes + have);
  if (have == request.length) {
    if (verdict.failure != Failure::kNone)
      answer(request, verdict.failure);
    else
      begin_write(request, in.first(have));
    return true;
  }
  writing_ = request;
  payload_verdict_ = verdict.failure;
  payload_size_ = request.length;
  payload_have_ = have;
  if (!payload_.pipe) std::memcpy(payload_.memory.data(), in.data(), have);
  return true;
}

/// False: the memory has to be waited for; claim_ reports it.
bool Connection::payload_memory(std::size_t size, Payload& payload) {
  const bool pooled = size <= ReplyBuffers::kBytes;
  if (!claim_.ask(pooled ? ReplyBuffers::kBytes : size)) return false;
  payload.hold = claim_.take();
  payload.memory = pooled ? world_.buffers.take() : Buffer(size, Buffer::kPageAlignment);
  payload_since_ = world_.budget.waited();
  return true;
}

void Connection::end_payload() {
  const std::size_t size = payload_size_;
  payload_size_ = 0;
  Result<void> written = Errc::kTryAgain;
  const bool now = (writing_.flags & kFua) == 0 && size <= kMaxWriteInLoop;
  // The file may have been truncated while the payload was on its way, which may take long.
  const Failure verdict = payload_verdict_ != Failure::kNone ? payload_verdict_ : export_->judge(writing_).failure;
  if (verdict != Failure::kNone) {
    answer(writing_, verdict);
    return give_back(std::exchange(payload_, Payload()), false);
  }
  if (now && payload_.pipe) {
    written = export_->device().write_pipe_now(writing_.offset, payload_.pipe.out.get(), size);
  } else if (now) {
    written = export_->device().write_now(writing_.offset, payload_.memory.view().first(size));
  }
  if (written.code() == Errc::kTryAgain) return spawn(writing_, std::exchange(payload_, Payload()));
  if (written) traffic_.written_bytes += size;
  answer(writing_, failure_of(written.code()));
  give_back(std::exchange(payload_, Payload()), written.has_value());
}

/// `emptied`: its pipe is empty.
void Connection::give_back(Payload payload, bool emptied) {
  if (payload.memory.size() == ReplyBuffers::kBytes) world_.buffers.give_back(std::move(payload.memory));
  if (!payload.pipe) return;
  if (emptied)
    world_.pipes.give_back(std::move(payload.pipe));
  else
    world_.pipes.gone();
}

void Connection::begin_write(const Request& request, ByteView payload) {
  if ((request.flags & kFua) == 0) {
    const auto written = export_->device().write_now(request.offset, payload);
    if (written.code() != Errc::kTryAgain) {
      if (written) traffic_.written_bytes += request.length;
      return answer(request, failure_of(written.code()));
    }
  }
  Payload copy;
  copy.memory = Buffer::copy_of(payload);
  spawn(request, std::move(copy));
}

void Connection::begin_request(const Request& request) {
  if (request.command == Command::kRead) return read(request);
  spawn(request, Payload());
}

void Connection::answer(const Request& request, Failure failure) {
  const bool structured =
      export_->structured() && (request.command == Command::kRead || request.command == Command::kBlockStatus);
  if (!structured) return put_simple_reply(output_.reserve(kSimpleReplyBytes), request.cookie, failure);
  if (failure != Failure::kNone) return put_error_chunk(output_.reserve(kErrorChunkBytes), request.cookie, failure);
  put_chunk(output_.reserve(kChunkBytes), ChunkHeader{Chunk::kNone, true, request.cookie, 0});
}

/// Whether the read is large enough to be sent without a copy in this program.
bool Connection::is_sent(const Request& request) const {
  return request.length >= std::max(world_.send_file_from, export_->device().least_sent()) &&
         transport_->can_send_file() && export_->device().has_pages();
}

void Connection::read(const Request& request) {
  traffic_.read_bytes += request.length;
  if (request.length == 0) return answer(request, Failure::kNone);
  if (is_sent(request)) {
    const int fd = export_->device().resident(Extent{request.offset, request.length});
    if (fd >= 0) return send_from_file(request, fd);
  } else if (read_gathered(request)) {
    return;
  }
  spawn(request, Payload());
}

/// Reads directly into the buffer that is sent next. False: the device would have to wait, or the read is too large.
bool Connection::read_gathered(const Request& request) {
  const std::size_t header = export_->data_header_bytes();
  if (header + request.length > ReplyBuffers::kBytes) return false;
  std::byte* const at = output_.reserve(header + request.length);
  const auto got = export_->device().read_now(request.offset, MutableByteView(at + header, request.length));
  if (got) {
    export_->put_data_header(at, request, true);
    return true;
  }
  output_.unreserve(header + request.length);
  if (got.code() == Errc::kTryAgain) return false;
  answer(request, failure_of(got.code()));
  return true;
}

void Connection::send_from_file(const Request& request, int fd) {
  traffic_.sent_by_file_bytes += request.length;
  // Not the last chunk: only sending reveals that the file has become shorter.
  export_->put_data_header(output_.reserve(export_->data_header_bytes()), request, false);
  output_.add_file(FileReply{fd, request.offset, request.length, request.cookie, export_->structured()});
}

void Connection::spawn(const Request& request, Payload payload) {
  ++in_flight_;
  memory_in_flight_ += memory_of(request);
  world_.memory_in_flight += memory_of(request);
  SPATE_CHECK(job::spawn(gate_, run(request, std::move(payload))));
}

job::Task<void> Connection::run(Request request, Payload payload) {
  const Failure failure = co_await execute(request, payload);
  if (failure != Failure::kNone)
    SPATE_LOG("nbd", debug, "request failed peer={} command={} offset={} length={} error={}", peer_.text,
              static_cast<int>(request.command), request.offset, request.length, static_cast<int>(failure));
  // A read and a block status send their own successful reply.
  const bool answered = request.command == Command::kRead || request.command == Command::kBlockStatus;
  if (failure != Failure::kNone || !answered) answer(request, failure);
  --in_flight_;
  memory_in_flight_ -= memory_of(request);
  world_.memory_in_flight -= memory_of(request);
  give_back(std::move(payload), failure == Failure::kNone);
  schedule_pump();
}

job::Task<Failure> Connection::execute(const Request& request, const Payload& payload) {
  const Extent range{request.offset, request.length};
  const ZeroParams params{(request.flags & kNoHole) != 0, (request.flags & kFastZero) != 0};
  Result<void> done;
  switch (request.command) {
    case Command::kRead: co_return co_await execute_read(request);
    case Command::kBlockStatus: co_return co_await execute_status(request);
    case Command::kFlush: co_return co_await export_->flush();
    case Command::kCache: done = co_await export_->device().make_resident(range); break;
    case Command::kWrite:
      if (payload.pipe)
        done = co_await export_->device().write_pipe(request.offset, payload.pipe.out.get(), request.length);
      else
        done = co_await export_->device().write(request.offset, payload.memory.view().first(request.length));
      break;
    case Command::kTrim: done = co_await export_->device().trim(range); break;
    case Command::kWriteZeroes: done = co_await export_->device().zero(range, params); break;
    case Command::kDisconnect: break;
  }
  if (!done) co_return failure_of(done.code());
  if (request.command == Command::kWrite) traffic_.written_bytes += request.length;
  const bool wrote = request.command != Command::kCache;
  if (wrote && (request.flags & kFua) != 0) co_return co_await export_->flush();
  co_return Failure::kNone;
}

job::Task<Failure> Connection::execute_read(const Request& request) {
  const Extent range{request.offset, request.length};
  if (is_sent(request)) {
    const auto there = co_await export_->device().make_resident(range);
    if (!there) co_return failure_of(there.code());
    const int fd = export_->device().resident(range);
    if (fd >= 0) {
      send_from_file(request, fd);
      co_return Failure::kNone;
    }
  }
  // The pages may have left the cache again, or their state is unknown: copy them, however long that takes.
  const std::size_t header = export_->data_header_bytes();
  const bool gathered = header + request.length <= std::min<std::size_t>(world_.send_file_from, ReplyBuffers::kBytes);
  MemoryBudget::Hold hold;
  if (!gathered) hold = co_await world_.budget.acquire(header + request.length);
  if (broken_) co_return Failure::kShutdown;  // nobody waits for the answer any more
  Buffer reply(header + request.length);
  const auto got = co_await export_->device().read(request.offset, reply.view().subspan(header));
  if (!got) co_return failure_of(got.code());
  export_->put_data_header(reply.data(), request, true);
  if (gathered)
    output_.add(ByteView(reply.view()));
  else
    output_.add(std::move(reply), std::move(hold));
  co_return Failure::kNone;
}

job::Task<Failure> Connection::execute_status(const Request& request) {
  const std::size_t max = (request.flags & kReqOne) != 0 ? 1 : kMaxStatusExtents;
  const Extent range{request.offset, request.length};
  const auto found = co_await export_->device().status(range, max);
  if (!found) co_return failure_of(found.code());
  const std::size_t payload = 4 + 8 * found->size();
  std::byte* at = output_.reserve(kChunkBytes + payload);
  put_chunk(at, ChunkHeader{Chunk::kBlockStatus, true, request.cookie, static_cast<std::uint32_t>(payload)});
  put_u32(at + kChunkBytes, Negotiation::kAllocationId);
  at += kChunkBytes + 4;
  for (const StatusExtent& extent : *found) {
    put_u32(at, static_cast<std::uint32_t>(extent.size));
    put_u32(at + 4, extent.flags);
    at += 8;
  }
  co_return Failure::kNone;
}

}  // namespace spate::nbd
