// SPDX-License-Identifier: Apache-2.0
// What the bytestream conformance suite runs over: every module, on every kind of local file system, behind one
// fixture.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/expect.h"
#include "trove/bytestream.h"

namespace spate::trove {

/// One store over state that outlives it.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Bytestreams& streams() = 0;
  /// The process ends in order and a new one opens the same state.
  virtual void restart() = 0;
  /// Called while a completion is awaited and test() found none: sleeps, or lets virtual time pass.
  virtual void idle() = 0;
  /// kOpen yields descriptors of the kernel.
  virtual bool real_descriptors() const { return true; }
};

/// The names of all backends: module, then what it runs on.
std::vector<std::string> backend_names();

/// Null with a reason in `skip` when this machine cannot run it.
std::unique_ptr<Backend> make_backend(const std::string& name, std::string& skip);

/// Bytes that tell where they are: each 8-byte word is a mix of `seed` and its position.
Bytes pattern(std::uint64_t seed, std::size_t size);

/// A request that owns what its spans name. Pinned once post() has seen it.
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

  /// Posts and leaves in flight, or done at once; wait() for it. The memory must outlive the wait.
  OwnedRequest& post(BytestreamOp op, DatafileId id, std::vector<Extent> extents = {},
                     std::vector<MutableByteView> memory = {});
  OwnedRequest& post_request(OwnedRequest request);
  const BytestreamCompletion& wait(OwnedRequest& request);
  void wait_all();

  BytestreamCompletion run(BytestreamOp op, DatafileId id, std::vector<Extent> extents = {});
  BytestreamCompletion write(DatafileId id, std::uint64_t offset, ByteView data);
  /// What was read; shorter than `size` at the datafile's end. Fails the test on an error.
  Bytes read(DatafileId id, std::uint64_t offset, std::size_t size);
  BytestreamCompletion truncate(DatafileId id, std::uint64_t size);
  BytestreamStat stat(DatafileId id);

  static DatafileId id(std::uint64_t handle, std::uint32_t slot = 0) { return DatafileId{Handle(handle), slot}; }
  /// The file-system time that requests carry; each post moves it on by one microsecond.
  WallTime now{1'600'000'000'000'000'000};

 private:
  bool collect();
  std::unique_ptr<Backend> backend_;
  std::deque<OwnedRequest> requests_;
  std::size_t in_flight_ = 0;
};

}  // namespace spate::trove
