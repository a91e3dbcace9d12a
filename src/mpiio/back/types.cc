// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/types.h"

#include <algorithm>
#include <vector>

namespace spate::mpiio {
namespace {

/// The result of MPI_Type_get_contents, with counts and displacements in 64 bits. Constructors with large counts have
/// all their numbers in `counts`, other constructors in `integers` and `addresses`.
struct Contents {
  int combiner = MPI_COMBINER_NAMED;
  std::vector<std::int64_t> integers;
  std::vector<std::int64_t> addresses;
  std::vector<std::int64_t> counts;
  std::vector<MPI_Datatype> types;

  Contents() = default;
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;
  ~Contents() {
    for (MPI_Datatype& type : types) free_copy(type);
  }
};

#if MPI_VERSION >= 4
bool load(MPI_Datatype type, Contents& out) {
  MPI_Count n[4] = {};
  if (PMPI_Type_get_envelope_c(type, &n[0], &n[1], &n[2], &n[3], &out.combiner) != MPI_SUCCESS) return false;
  if (out.combiner == MPI_COMBINER_NAMED) return true;
  std::vector<int> integers(static_cast<std::size_t>(n[0]));
  std::vector<MPI_Aint> addresses(static_cast<std::size_t>(n[1]));
  std::vector<MPI_Count> counts(static_cast<std::size_t>(n[2]));
  out.types.resize(static_cast<std::size_t>(n[3]), MPI_BYTE);
  if (PMPI_Type_get_contents_c(type, n[0], n[1], n[2], n[3], integers.data(), addresses.data(), counts.data(),
                               out.types.data()) != MPI_SUCCESS)
    return false;
  out.integers.assign(integers.begin(), integers.end());
  out.addresses.assign(addresses.begin(), addresses.end());
  out.counts.assign(counts.begin(), counts.end());
  return true;
}
#else
bool load(MPI_Datatype type, Contents& out) {
  int n[3] = {};
  if (PMPI_Type_get_envelope(type, &n[0], &n[1], &n[2], &out.combiner) != MPI_SUCCESS) return false;
  if (out.combiner == MPI_COMBINER_NAMED) return true;
  std::vector<int> integers(static_cast<std::size_t>(n[0]));
  std::vector<MPI_Aint> addresses(static_cast<std::size_t>(n[1]));
  out.types.resize(static_cast<std::size_t>(n[2]), MPI_BYTE);
  if (PMPI_Type_get_contents(type, n[0], n[1], n[2], integers.data(), addresses.data(), out.types.data()) !=
      MPI_SUCCESS)
    return false;
  out.integers.assign(integers.begin(), integers.end());
  out.addresses.assign(addresses.begin(), addresses.end());
  return true;
}
#endif

/// `bytes_of` null: predefined types have their sizes in memory.
std::optional<Flat> build(MPI_Datatype type, const BytesOf* bytes_of);

/// Yields the numbers of a constructor one after the other, whichever array holds them.
class Numbers {
 public:
  explicit Numbers(const Contents& contents) : c_(contents) {}
  std::int64_t count() { return c_.counts.empty() ? integer() : take(c_.counts, counts_); }
  std::int64_t address() { return c_.counts.empty() ? take(c_.addresses, addresses_) : take(c_.counts, counts_); }
  std::int64_t integer() { return take(c_.integers, integers_); }
  std::vector<std::int64_t> many(std::int64_t n, std::int64_t (Numbers::*one)()) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < n; ++i) all.push_back((this->*one)());
    return all;
  }
  bool good() const { return good_; }

 private:
  std::int64_t take(const std::vector<std::int64_t>& from, std::size_t& at) {
    if (at < from.size()) return from[at++];
    good_ = false;
    return 0;
  }
  const Contents& c_;
  std::size_t integers_ = 0;
  std::size_t addresses_ = 0;
  std::size_t counts_ = 0;
  bool good_ = true;
};

std::vector<std::uint64_t> as_lengths(const std::vector<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

std::optional<Flat> build_indexed(const Flat& child, Numbers& n, int combiner) {
  const std::int64_t blocks = n.count();
  const bool same = combiner == MPI_COMBINER_INDEXED_BLOCK || combiner == MPI_COMBINER_HINDEXED_BLOCK;
  const bool elements = combiner == MPI_COMBINER_INDEXED || combiner == MPI_COMBINER_INDEXED_BLOCK;
  std::vector<std::uint64_t> lengths;
  if (same) {
    lengths.assign(static_cast<std::size_t>(blocks), static_cast<std::uint64_t>(n.count()));
  } else {
    lengths = as_lengths(n.many(blocks, &Numbers::count));
  }
  std::vector<std::int64_t> places = n.many(blocks, elements ? &Numbers::count : &Numbers::address);
  if (!n.good()) return std::nullopt;
  for (std::int64_t& place : places) place *= elements ? child.extent() : 1;
  return child.hindexed(lengths, places);
}

std::optional<Flat> build_struct(const Contents& contents, Numbers& n, const BytesOf* bytes_of) {
  const std::int64_t count = n.count();
  const std::vector<std::int64_t> lengths = n.many(count, &Numbers::count);
  const std::vector<std::int64_t> places = n.many(count, &Numbers::address);
  if (!n.good() || contents.types.size() != lengths.size()) return std::nullopt;
  std::vector<Flat> types;
  for (const MPI_Datatype type : contents.types) {
    auto flat = build(type, bytes_of);
    if (!flat) return std::nullopt;
    types.push_back(*std::move(flat));
  }
  std::vector<Flat::Member> members;
  for (std::size_t i = 0; i < types.size(); ++i)
    members.push_back({&types[i], static_cast<std::uint64_t>(lengths[i]), places[i]});
  return Flat::structure(members);
}

std::optional<Flat> build_subarray(const Flat& child, Numbers& n) {
  const std::int64_t dimensions = n.integer();
  const auto sizes = as_lengths(n.many(dimensions, &Numbers::count));
  const auto sub_sizes = as_lengths(n.many(dimensions, &Numbers::count));
  const auto starts = as_lengths(n.many(dimensions, &Numbers::count));
  const bool c_order = n.integer() == MPI_ORDER_C;
  if (!n.good()) return std::nullopt;
  std::vector<Flat::Dimension> shape;
  for (std::size_t i = 0; i < sizes.size(); ++i) shape.push_back({sizes[i], sub_sizes[i], starts[i]});
  if (c_order) std::reverse(shape.begin(), shape.end());
  return child.subarray(shape);
}

Flat::ArrayDistribution distribution_of(std::int64_t distribution) {
  if (distribution == MPI_DISTRIBUTE_BLOCK) return Flat::ArrayDistribution::kBlock;
  return distribution == MPI_DISTRIBUTE_CYCLIC ? Flat::ArrayDistribution::kCyclic : Flat::ArrayDistribution::kNone;
}

std::optional<Flat> build_darray(const Flat& child, Numbers& n) {
  n.integer();  // the number of all processes
  std::int64_t rank = n.integer();
  const std::int64_t dimensions = n.integer();
  const auto sizes = as_lengths(n.many(dimensions, &Numbers::count));
  const auto distributions = n.many(dimensions, &Numbers::integer);
  const auto arguments = n.many(dimensions, &Numbers::integer);
  const auto processes = as_lengths(n.many(dimensions, &Numbers::integer));
  const bool c_order = n.integer() == MPI_ORDER_C;
  if (!n.good()) return std::nullopt;
  std::vector<Flat::DistributedDimension> shape(sizes.size());
  for (std::size_t i = sizes.size(); i-- > 0;) {  // the grid of processes has C's order in any case
    const std::uint64_t argument =
        arguments[i] == MPI_DISTRIBUTE_DFLT_DARG ? 0 : static_cast<std::uint64_t>(arguments[i]);
    const auto here = static_cast<std::uint64_t>(rank) % processes[i];
    shape[i] = {sizes[i], distribution_of(distributions[i]), argument, processes[i], here};
    rank /= static_cast<std::int64_t>(processes[i]);
  }
  if (c_order) std::reverse(shape.begin(), shape.end());
  return child.darray(shape);
}

std::optional<Flat> build_derived(const Contents& contents, const BytesOf* bytes_of) {
  Numbers n(contents);
  if (contents.combiner == MPI_COMBINER_STRUCT) return build_struct(contents, n, bytes_of);
  if (contents.types.size() != 1) return std::nullopt;
  const auto child = build(contents.types.front(), bytes_of);
  if (!child) return std::nullopt;
  switch (contents.combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED: return child;  // build() sets the extent
    case MPI_COMBINER_CONTIGUOUS: return child->hvector(1, static_cast<std::uint64_t>(n.count()), 0);
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR: {
      const auto count = static_cast<std::uint64_t>(n.count());
      const auto length = static_cast<std::uint64_t>(n.count());
      const bool elements = contents.combiner == MPI_COMBINER_VECTOR;
      return child->hvector(count, length, elements ? n.count() * child->extent() : n.address());
    }
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK: return build_indexed(*child, n, contents.combiner);
    case MPI_COMBINER_SUBARRAY: return build_subarray(*child, n);
    case MPI_COMBINER_DARRAY: return build_darray(*child, n);
    default: return std::nullopt;
  }
}

bool is_leaf(int combiner) {
  return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL || combiner == MPI_COMBINER_F90_COMPLEX ||
         combiner == MPI_COMBINER_F90_INTEGER;
}

/// The map of a predefined type. All types are bytes without a gap, except a pair of a short, a gap that its size does
/// not count, and an int.
std::optional<Flat> build_named(MPI_Datatype type, MPI_Count size) {
  struct Pair {
    short value;
    int index;
  };
  if (type != MPI_SHORT_INT) return Flat::basic(static_cast<std::uint64_t>(size));
  const Flat value = Flat::basic(sizeof(short));
  const Flat index = Flat::basic(sizeof(int));
  const Flat::Member members[] = {{&value, 1, 0}, {&index, 1, offsetof(Pair, index)}};
  return Flat::structure(members);
}

std::optional<Flat> build_in_file(MPI_Datatype type, const Contents& contents, const BytesOf& bytes_of) {
  if (is_leaf(contents.combiner)) {
    const auto bytes = bytes_of(type);
    return bytes ? std::optional(Flat::basic(*bytes)) : std::nullopt;
  }
  auto flat = build_derived(contents, &bytes_of);
  if (!flat || contents.combiner != MPI_COMBINER_RESIZED) return flat;
  Numbers n(contents);
  const std::int64_t lb = n.address();
  return flat->resized(lb, n.address());
}

std::optional<Flat> build(MPI_Datatype type, const BytesOf* bytes_of) {
  Contents contents;
  if (!load(type, contents)) return std::nullopt;
  if (bytes_of != nullptr) return build_in_file(type, contents, *bytes_of);
  MPI_Count lb = 0;
  MPI_Count extent = 0;
  MPI_Count size = 0;
  if (PMPI_Type_get_extent_x(type, &lb, &extent) != MPI_SUCCESS || PMPI_Type_size_x(type, &size) != MPI_SUCCESS)
    return std::nullopt;
  const auto flat = is_leaf(contents.combiner) ? build_named(type, size) : build_derived(contents, nullptr);
  if (!flat) return std::nullopt;
  if (flat->size() != static_cast<std::uint64_t>(size)) return std::nullopt;
  return flat->resized(lb, extent);
}

using Kept = std::shared_ptr<const Flat>;

int copy_kept(MPI_Datatype, int, void*, void* value, void* out, int* flag) {
  *static_cast<Kept**>(out) = new Kept(*static_cast<Kept*>(value));
  *flag = 1;
  return MPI_SUCCESS;
}

int delete_kept(MPI_Datatype, int, void* value, void*) {
  delete static_cast<Kept*>(value);
  return MPI_SUCCESS;
}

int keyval() {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    PMPI_Type_create_keyval(copy_kept, delete_kept, &made, nullptr);
    return made;
  }();
  return key;
}

}  // namespace

std::shared_ptr<const Flat> flat_of(MPI_Datatype type) {
  Kept* kept = nullptr;
  int found = 0;
  if (PMPI_Type_get_attr(type, keyval(), static_cast<void*>(&kept), &found) != MPI_SUCCESS) return nullptr;
  if (found != 0) return *kept;
  auto flat = build(type, nullptr);
  if (!flat) return nullptr;
  Kept made = std::make_shared<const Flat>(*std::move(flat));
  PMPI_Type_set_attr(type, keyval(), new Kept(made));
  return made;
}

std::shared_ptr<const Flat> flat_with(MPI_Datatype type, const BytesOf& bytes_of) {
  auto flat = build(type, &bytes_of);
  return flat ? std::make_shared<const Flat>(*std::move(flat)) : nullptr;
}

bool is_named(MPI_Datatype type) {
  int n[3] = {};
  int combiner = MPI_COMBINER_NAMED;
  PMPI_Type_get_envelope(type, &n[0], &n[1], &n[2], &combiner);
  return is_leaf(combiner);
}

MPI_Datatype copy_type(MPI_Datatype type) {
  MPI_Datatype copy = type;
  if (!is_named(type)) PMPI_Type_dup(type, &copy);
  return copy;
}

void free_copy(MPI_Datatype& type) {
  if (type != MPI_DATATYPE_NULL && !is_named(type)) PMPI_Type_free(&type);
}

}  // namespace spate::mpiio
