// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/hints.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

namespace spate::mpiio {
namespace {

constexpr std::uint64_t kMostBuffer = 1U << 30U;  // an int counts the bytes that a rank sends in a round
constexpr std::uint32_t kMostPerNode = 1U << 20U;
constexpr const char* kEchoed[] = {"romio_ds_read", "romio_ds_write", "ind_rd_buffer_size", "ind_wr_buffer_size"};

std::optional<std::string> value_of(MPI_Info info, const char* key) {
  if (info == MPI_INFO_NULL) return std::nullopt;
  char text[MPI_MAX_INFO_VAL + 1] = {};
  int found = 0;
  if (PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, text, &found) != MPI_SUCCESS || found == 0) return std::nullopt;
  return std::string(text);
}

struct Range {
  std::uint64_t least;
  std::uint64_t most;
};

class Reader {
 public:
  explicit Reader(MPI_Info info) : info_(info) {}

  template <typename Number>
  void number(const char* key, Number& out, Range range, int base = 10) {
    const auto text = value_of(info_, key);
    if (!text) return;
    std::uint64_t value = 0;
    const char* const end = text->data() + text->size();
    const auto parsed = std::from_chars(text->data(), end, value, base);
    if (parsed.ec != std::errc() || parsed.ptr != end || value < range.least || value > range.most) {
      char limits[96];
      std::snprintf(limits, sizeof limits,
                    base == 8 ? "an octal number from %llo to %llo" : "a number from %llu to %llu",
                    static_cast<unsigned long long>(range.least), static_cast<unsigned long long>(range.most));
      wrong.push_back(std::string("hint ") + key + "=" + *text + " is ignored: it must be " + limits);
    } else {
      out = static_cast<Number>(value);
    }
  }
  void choice(const char* key, Choice& out) {
    const auto text = value_of(info_, key);
    if (!text) return;
    if (*text == "automatic") {
      out = Choice::kAutomatic;
    } else if (*text == "enable") {
      out = Choice::kEnable;
    } else if (*text == "disable") {
      out = Choice::kDisable;
    } else {
      wrong.push_back(std::string("hint ") + key + "=" + *text +
                      " is ignored: it must be enable, disable or automatic");
    }
  }
  /// Reads ROMIO's list of hosts. Spate makes no difference between hosts.
  void per_node(const char* key, std::uint32_t& out) {
    const auto text = value_of(info_, key);
    if (!text) return;
    std::uint32_t value = 0;
    const char* const end = text->data() + text->size();
    if (*text == "*:*") {
      out = kMostPerNode;
    } else if (text->starts_with("*:") && std::from_chars(text->data() + 2, end, value).ptr == end && value > 0 &&
               value <= kMostPerNode) {
      out = value;
    } else {
      wrong.push_back(std::string("hint ") + key + "=" + *text +
                      " is ignored: it must be *:N (at most N aggregators on a node) or *:*");
    }
  }
  void text(const char* key, std::array<char, 256>& out) {
    const auto value = value_of(info_, key);
    if (!value) return;
    if (value->size() >= out.size()) {
      wrong.push_back(std::string("hint ") + key + " is ignored: it is longer than 255 bytes");
      return;
    }
    out.fill(0);
    std::copy(value->begin(), value->end(), out.begin());
  }
  /// Checks a hint of which only one value is supported, because others would change what the program may do.
  void only(const char* key, const char* taken, const char* why) {
    const auto text = value_of(info_, key);
    if (text && *text != taken) wrong.push_back(std::string("hint ") + key + "=" + *text + " is ignored: " + why);
  }
  std::vector<std::string> wrong;

 private:
  MPI_Info info_;
};

const char* text_of(Choice choice) {
  if (choice == Choice::kAutomatic) return "automatic";
  return choice == Choice::kEnable ? "enable" : "disable";
}

}  // namespace

std::vector<std::string> read_hints(MPI_Info info, Hints& hints) {
  Reader reader(info);
  reader.number("striping_unit", hints.striping_unit, {4096, 1ULL << 32U});
  reader.number("striping_factor", hints.striping_factor, {1, UINT32_MAX});
  reader.number("start_iodevice", hints.first_target, {0, UINT32_MAX});
  reader.text("spate_distribution", hints.distribution);
  reader.number("cb_nodes", hints.cb_nodes, {1, 1U << 20U});
  reader.per_node("cb_config_list", hints.cb_per_node);
  reader.only("romio_no_indep_rw", "false", "every rank opens the file and may use it by itself");
  reader.number("cb_buffer_size", hints.cb_buffer_size, {1, kMostBuffer});
  reader.choice("romio_cb_read", hints.cb_read);
  reader.choice("romio_cb_write", hints.cb_write);
  reader.number("file_perm", hints.file_perm, {0, 0777}, 8);
  return reader.wrong;
}

std::vector<std::string> read_all_hints(MPI_Info info, Hints& hints) {
  std::vector<std::string> wrong;
  if (const char* name = std::getenv("ROMIO_HINTS"); name != nullptr && *name != '\0') {
    std::ifstream file(name);
    if (!file) wrong.push_back("ROMIO_HINTS=" + std::string(name) + " cannot be read");
    MPI_Info beneath = MPI_INFO_NULL;
    PMPI_Info_create(&beneath);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string key;
      std::string value;
      std::string more;
      if (!(words >> key) || key.front() == '#') continue;
      if (!(words >> value) || words >> more || key.size() >= MPI_MAX_INFO_KEY || value.size() >= MPI_MAX_INFO_VAL) {
        wrong.push_back("ROMIO_HINTS=" + std::string(name) + ": not a key and a value: " + line.substr(0, 80));
      } else {
        PMPI_Info_set(beneath, key.c_str(), value.c_str());
      }
    }
    for (std::string& text : read_hints(beneath, hints)) wrong.push_back("ROMIO_HINTS: " + std::move(text));
    PMPI_Info_free(&beneath);
  }
  for (std::string& text : read_hints(info, hints)) wrong.push_back(std::move(text));
  return wrong;
}

std::map<std::string, std::string> echoed_hints(MPI_Info info) {
  std::map<std::string, std::string> echoed = {{"romio_ds_read", "automatic"}, {"romio_ds_write", "automatic"}};
  for (const char* key : kEchoed) {
    if (const auto text = value_of(info, key)) echoed[key] = *text;
  }
  return echoed;
}

MPI_Info make_info(const Hints& hints, const std::map<std::string, std::string>& echoed) {
  MPI_Info info = MPI_INFO_NULL;
  if (PMPI_Info_create(&info) != MPI_SUCCESS) return MPI_INFO_NULL;
  const auto set = [info](const char* key, const std::string& value) { PMPI_Info_set(info, key, value.c_str()); };
  set("striping_unit", std::to_string(hints.striping_unit));
  set("striping_factor", std::to_string(hints.striping_factor));
  set("start_iodevice", std::to_string(hints.first_target));
  set("spate_distribution", hints.distribution.data());
  set("cb_nodes", std::to_string(hints.cb_nodes));
  if (hints.cb_per_node > 0)
    set("cb_config_list", hints.cb_per_node == kMostPerNode ? "*:*" : "*:" + std::to_string(hints.cb_per_node));
  set("cb_buffer_size", std::to_string(hints.cb_buffer_size));
  set("romio_cb_read", text_of(hints.cb_read));
  set("romio_cb_write", text_of(hints.cb_write));
  set("romio_filesystem_type", "SPATE:");
  set("romio_visibility_immediate", "true");  // HDF5 asks for it: all ranks see written data at once
  for (const auto& [key, value] : echoed) set(key.c_str(), value);
  return info;
}

}  // namespace spate::mpiio
