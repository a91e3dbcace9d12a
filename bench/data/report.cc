// SPDX-License-Identifier: Apache-2.0
#include "data/report.h"

#include <fmt/core.h>
#include <sys/utsname.h>

#include <nlohmann/json.hpp>

#include "measure/cpu.h"

namespace spate::bench {
namespace {

measure::Summary quotients(const std::vector<Sample>& above, const std::vector<Sample>& below,
                           double (*part)(const Sample&)) {
  std::vector<double> values;
  for (std::size_t i = 0; i < above.size() && i < below.size(); ++i) {
    if (part(below[i]) > 0) values.push_back(part(above[i]) / part(below[i]));
  }
  return measure::Summary::of(values);
}

std::string goal_text(const Figure& f) {
  std::string text;
  if (f.goal.ratio_at_least) text += fmt::format("ratio >= {:.2f} ", *f.goal.ratio_at_least);
  if (f.goal.cpu_ratio_at_most) text += fmt::format("cpu <= {:.2f}x ", *f.goal.cpu_ratio_at_most);
  if (f.goal.above_probe_at_most) text += fmt::format("<= raw + {:.0f} {} ", *f.goal.above_probe_at_most, f.unit);
  if (f.goal.at_least) text += fmt::format(">= {:.0f} ", *f.goal.at_least);
  if (f.goal.at_most) text += fmt::format("<= {:.0f} {} ", *f.goal.at_most, f.unit);
  return text.empty() ? "-" : text + (f.met() ? "(met)" : "(MISSED)");
}

nlohmann::json as_json(const measure::Summary& s) {
  return {{"median", s.median}, {"low", s.low}, {"high", s.high}, {"runs", s.runs}};
}

nlohmann::json side_as_json(const std::vector<Sample>& samples) {
  return {{"value", as_json(Figure::summary(samples, &Sample::value))},
          {"client_cpu", as_json(Figure::summary(samples, &Sample::client_cpu))},
          {"server_cpu", as_json(Figure::summary(samples, &Sample::server_cpu))}};
}

}  // namespace

measure::Summary Figure::summary(const std::vector<Sample>& samples, double Sample::* member) {
  std::vector<double> values;
  for (const Sample& s : samples) values.push_back(s.*member);
  return measure::Summary::of(values);
}

measure::Summary Figure::ratio() const {
  return quotients(spate, raw, [](const Sample& s) { return s.value; });
}

measure::Summary Figure::cpu_ratio() const {
  return quotients(spate, raw, [](const Sample& s) { return s.cpu(); });
}

bool Figure::met() const {
  if (goal.ratio_at_least && ratio().median < *goal.ratio_at_least) return false;
  if (goal.cpu_ratio_at_most && cpu_ratio().median > *goal.cpu_ratio_at_most) return false;
  if (goal.above_probe_at_most && value().median > raw_value().median + *goal.above_probe_at_most) return false;
  if (goal.at_most && value().median > *goal.at_most) return false;
  return !goal.at_least || value().median >= *goal.at_least;
}

std::string table(const std::vector<Figure>& figures) {
  std::string out =
      fmt::format("{:<26} {:>9} {:>19} {:>19} {:>6} | {:>6} {:>13} {:>13} {:>5} | goal\n", "", "unit", "raw (low-high)",
                  "spate (low-high)", "ratio", "cpu", "raw cl/srv", "spate cl/srv", "x");
  for (const Figure& f : figures) {
    const auto with_range = [](const measure::Summary& s) {
      const int digits = s.median < 10 ? 2 : s.median < 1000 ? 1 : 0;
      return fmt::format("{:.{}f} ({:.{}f}-{:.{}f})", s.median, digits, s.low, digits, s.high, digits);
    };
    const auto cpu = [](const std::vector<Sample>& side) {
      return fmt::format("{:.2f}/{:.2f}", Figure::summary(side, &Sample::client_cpu).median,
                         Figure::summary(side, &Sample::server_cpu).median);
    };
    out += fmt::format("{:<26} {:>9} {:>19} {:>19} {:>6.2f} | {:>6} {:>13} {:>13} {:>5.2f} | {}\n", f.name, f.unit,
                       with_range(f.raw_value()), with_range(f.value()), f.ratio().median, f.cpu_unit, cpu(f.raw),
                       cpu(f.spate), f.cpu_ratio().median, goal_text(f));
  }
  return out;
}

std::string json(const std::vector<Figure>& figures, const std::vector<std::pair<std::string, std::string>>& about) {
  utsname system{};
  uname(&system);
  nlohmann::json out;
  out["machine"] = {{"kernel", system.release}, {"architecture", system.machine}, {"processors", measure::cpu_count()}};
  for (const auto& [key, value] : about) out["about"][key] = value;
  for (const Figure& f : figures) {
    out["figures"].push_back({{"name", f.name},
                              {"unit", f.unit},
                              {"cpu_unit", f.cpu_unit},
                              {"raw", side_as_json(f.raw)},
                              {"spate", side_as_json(f.spate)},
                              {"ratio", as_json(f.ratio())},
                              {"cpu_ratio", as_json(f.cpu_ratio())},
                              {"goal", goal_text(f)},
                              {"has_goal", f.goal.any()},
                              {"met", f.met()}});
  }
  return out.dump(2);
}

}  // namespace spate::bench
