// SPDX-License-Identifier: Apache-2.0
// The fixture of the bytestream conformance suite. It runs every module, on every kind of local file
// system.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/expect.h"
#include "trove/bytestream.h"

namespace spate::trove {

/// One store. Its state (a folder, or memory) outlives it.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Bytestreams& streams() = 0;
  /// Closes the store in order, and opens the same state in a new one.
  virtual void restart() = 0;
  /// Called while a test waits for a completion and test() finds none. Sleeps, or lets virtual time pass.
  virtual void idle() = 0;
  /// Whether kOpen yields descriptors of the kernel.
  virtual bool real_descriptors() const { return true; }
};

/// The names of all backends: the module, and the kind of storage.
std::vector<std::string> backend_names();

/// Null if this machine cannot run the backend; `skip` has the reason.
std::unique_ptr<Backend> make_backend(const std::string& name, std::string& skip);

/// Each 8-byte word is a mix of `seed` and its position, so that misplaced bytes are noticed.
Bytes pattern(std::uint64_t seed, std::size_t size);

/// A request with the arrays to which its spans point. Pinned after post().
struct OwnedRequest {
  BytestreamRequest request;
  std::vector<Extent> extents;
  std::vector<MutableByteView> memory;
  BytestreamCompletion done;
  bool ended = false;
};

class BytestreamTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;
  void TearDown() override;

  Bytestreams& streams() { return backend_->streams(); }
  Backend& backend() { return *backend_; }
  void restart() { backend_->restart(); }

  /// Posts an operation; wait() yields its completion. The memory must outlive the wait.
  OwnedRequest& post(BytestreamOp op, DatafileId id, std::vector<Extent> extents = {},
                     std::vector<MutableByteView> memory = {});
  OwnedRequest& post_request(OwnedRequest request);
  const BytestreamCompletion& wait(OwnedRequest& request);
  void wait_all();

  BytestreamCompletion run(BytestreamOp op, DatafileId id, std::vector<Extent> extents = {});
  BytestreamCompletion write(DatafileId id, std::uint64_t offset, ByteView data);
  /// Reads up to `size` bytes; fewer at the datafile's end. An error fails the test.
  Bytes read(DatafileId id, std::uint64_t offset, std::size_t size);
  BytestreamCompletion truncate(DatafileId id, std::uint64_t size);
  BytestreamStat stat(DatafileId id);

  static DatafileId id(std::uint64_t handle, std::uint32_t slot = 0) { return DatafileId{Handle(handle), slot}; }
  /// The file-system time of requests. Each post advances it by one microsecond.
  WallTime now{1'600'000'000'000'000'000};

 private:
  bool collect();
  std::unique_ptr<Backend> backend_;
  std::deque<OwnedRequest> requests_;
  std::size_t in_flight_ = 0;
};

}  // namespace spate::trove
