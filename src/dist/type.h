// SPDX-License-Identifier: Apache-2.0
// DistributionType: describes a kind of distribution. docs/adding-a-distribution.md says how to add one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dist/distribution.h"

namespace spate {

/// A kind of distribution: its number and name, and how its parameters are written by people ("64 KiB,1 MiB"), stored
/// (DistributionSpec::parameters), and made into a Distribution. Parameters come from disk, network and users. So each
/// function checks them: kInvalidArgument, with a sentence that names the distribution. Immutable: any thread may call.
class DistributionType {
 public:
  virtual ~DistributionType() = default;

  /// Never changes and is never reused, since inodes store it.
  virtual std::uint8_t kind() const = 0;
  virtual std::string_view name() const = 0;
  /// One sentence about the distribution, for `spate setstripe --help`.
  virtual std::string_view summary() const = 0;
  /// Valid parameters as people write them, at least one. Tests try each with every property that a distribution
  /// promises; messages show the last.
  virtual std::vector<std::string> examples() const = 0;

  /// Parses the text that people write after "name:" into stored parameters. Empty: they wrote no parameters.
  virtual Result<Bytes> parse(std::string_view text) const = 0;
  /// The text for stored parameters: the reverse of parse().
  virtual Result<std::string> describe(ByteView parameters) const = 0;
  /// The number of slots of a new file for which a user wants `wanted` slots and there are targets for `most`; 1 <=
  /// wanted <= most <= kMaxSlots. The result is at most `most`.
  virtual Result<std::size_t> slots(ByteView parameters, std::size_t wanted, std::size_t most) const = 0;

  struct Shape {
    ByteView parameters;
    std::uint64_t strip_bytes;  // kMinStripBytes..kMaxStripBytes
    std::size_t slots;          // 1..kMaxSlots
  };
  /// The result does not refer to `shape`.
  virtual Result<std::unique_ptr<const Distribution>> make(const Shape& shape) const = 0;
};

/// kInvalidArgument, with a sentence about the parameters of the distribution `name`.
Error bad_parameters(std::string_view name, std::string_view why);
/// For distributions that have no parameters: kInvalidArgument if there are some.
Result<Bytes> without_parameters(const DistributionType& type, std::string_view text);
Result<std::string> without_parameters(const DistributionType& type, ByteView parameters);

}  // namespace spate
