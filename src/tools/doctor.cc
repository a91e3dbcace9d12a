// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/doctor_checks.h"
#include "tools/doctor_machine.h"
#include "tools/name_space.h"
#include "tools/own_address.h"
#include "tools/probe.h"
#include "tools/voters.h"

namespace spate::tools {
namespace {

/// The file system to check, which a machine need not have.
Result<std::optional<DoctorSubject>> subject_of(Context& context, assembly::ClientSettings& settings) {
  auto file = context.config_file();
  if (!file && context.fs.empty()) return std::optional<DoctorSubject>();
  if (!file) return std::move(file).error();
  SPATE_TRY(settings, context.client_settings(*file));
  SPATE_TRY(auto overrides, context.config_overrides());
  SPATE_TRY(const auto loaded, config::load_file(*file, std::move(overrides)));
  DoctorSubject subject;
  std::ranges::copy_if(loaded.config.servers, std::back_inserter(subject.servers), belongs_here);
  if (!loaded.config.meta.coordinator.empty()) subject.voters = look_at_voters(loaded.config);
  return std::optional(std::move(subject));
}

/// Whether the server answers and proves that it has the keys.
bool server_answers(const assembly::ClientSettings& settings, ServerId server) {
  auto process = assembly::ClientProcess::open(settings);
  return process && ping(**process, server, {}).has_value();
}

std::string_view word_of(Verdict verdict) {
  if (verdict == Verdict::kOk) return "ok";
  return verdict == Verdict::kWarning ? "warning" : "failure";
}

void show(const Context& context, const std::vector<Diagnosis>& diagnoses) {
  for (const Diagnosis& diagnosis : diagnoses) {
    if (context.quiet && diagnosis.verdict == Verdict::kOk) continue;
    print(fmt::format("{:<8} {}: {}\n", word_of(diagnosis.verdict), diagnosis.check, diagnosis.what));
    if (!diagnosis.advice.empty()) print("         " + diagnosis.advice + "\n");
  }
}

nlohmann::json as_json(const std::vector<Diagnosis>& diagnoses) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Diagnosis& diagnosis : diagnoses)
    rows.push_back({{"check", diagnosis.check},
                    {"verdict", word_of(diagnosis.verdict)},
                    {"what", diagnosis.what},
                    {"advice", diagnosis.advice}});
  return rows;
}

int run_doctor(Context& context) {
  assembly::ClientSettings settings;
  const auto subject = subject_of(context, settings);
  const auto machine =
      system_machine([&](const config::ServerConfig& server) { return server_answers(settings, server.id); });
  std::vector<Diagnosis> diagnoses = examine(*machine, subject ? *subject : std::optional<DoctorSubject>());
  // A broken spate.toml may be the reason for the question, so the rest of the machine is examined, too.
  if (!subject)
    diagnoses.push_back({"configuration", Verdict::kFailure, subject.error().message(),
                         "mend it, or name another file system by --fs; its ports and stores were not looked at"});
  if (context.json) {
    context.print_json(as_json(diagnoses));
  } else {
    show(context, diagnoses);
    if (subject && !*subject) print("ports and stores: not looked at, since no file system is named (--fs)\n");
  }
  const bool fails = std::ranges::any_of(diagnoses, [](const Diagnosis& f) { return f.verdict == Verdict::kFailure; });
  return fails ? kExitFailed : kExitOk;
}

}  // namespace

Command make_doctor() {
  Command command;
  command.name = "doctor";
  command.group = "Look";
  command.summary = "find problems of this machine, and say what to do";
  command.details =
      "Looks at limits, locked memory, io_uring, FUSE, the clock, shared memory and RDMA devices, and at the ports\n"
      "and stores of the servers of this machine, running or not. With several meta servers it also asks each member\n"
      "of etcd. It changes nothing. -q prints problems only. A\n"
      "warning costs speed, or will become a problem later. A failure means that something does not work; the exit\n"
      "code is 1.";
  command.run = run_doctor;
  return command;
}

}  // namespace spate::tools
