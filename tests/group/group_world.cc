// SPDX-License-Identifier: Apache-2.0
#include "tests/group/group_world.h"

#include <algorithm>

#include "job/deadline.h"

namespace spate::group {
namespace {

constexpr std::uint32_t kGroup = 1;
/// The server that has this number in the record with which the coordinator is formatted.
ServerId server_of(std::uint32_t number) { return ServerId(number + 1); }

}  // namespace

/// The network from one machine to the others.
class GroupWorld::SimLink final : public Link {
 public:
  SimLink(GroupWorld& world, std::uint32_t from) : world_(world), from_(from) {}

  job::Task<Result<Answer>> send(ServerId to, std::shared_ptr<const Message> message, Duration timeout,
                                 job::StopToken stop) override {
    GroupProcess* const self = world_.process(from_);
    if (self == nullptr) co_return Errc::kCancelled;
    job::Executor& executor = self->executor();
    const auto exchange = std::make_shared<Exchange>(executor);
    const std::uint32_t number = to.value - 1;
    const std::uint32_t copies = world_.random_.chance(world_.trouble_percent_, 100) ? 2 : 1;
    for (std::uint32_t i = 0; i < copies; ++i) deliver(number, message, exchange);
    job::DeadlineScope scope(executor, executor.now() + timeout, stop);
    const auto waited = co_await exchange->answered.wait(scope.token());
    exchange->waits = false;
    if (!waited) co_return waited.error();
    // Messages pass through the codecs, so that only encoded fields arrive.
    auto answer = decode_answer(encode(*exchange->answer));
    co_return answer;
  }

 private:
  struct Exchange {
    explicit Exchange(job::Executor& executor) : answered(executor) {}
    job::Event answered;
    bool waits = true;
    std::optional<Answer> answer;
  };

  void deliver(std::uint32_t to, const std::shared_ptr<const Message>& message,
               const std::shared_ptr<Exchange>& exchange) {
    if (world_.cuts_.contains({from_, to}) || world_.random_.chance(world_.trouble_percent_, 100)) return;
    world_.at(world_.latency_from_now(), [this, to, message, exchange] {
      GroupProcess* const process = world_.process(to);
      if (process == nullptr || world_.cuts_.contains({from_, to})) return;
      auto decoded = decode_message(encode(*message));
      SPATE_CHECK(decoded.has_value());
      auto received = std::make_shared<const Message>(*std::move(decoded));
      process->take(std::move(received), [this, to, exchange](Answer answer) { bring_back(to, answer, exchange); });
    });
  }
  void bring_back(std::uint32_t to, Answer answer, const std::shared_ptr<Exchange>& exchange) {
    if (world_.cuts_.contains({to, from_})) return;
    world_.at(world_.latency_from_now(), [exchange, answer] {
      if (!exchange->waits) return;
      exchange->answer = answer;
      exchange->answered.set();
    });
  }

  GroupWorld& world_;
  const std::uint32_t from_;
};

GroupWorld::GroupWorld(const GroupWorldOptions& options)
    : random_(options.seed), service_(clock_, random_), machines_(options.members) {
  SPATE_CHECK(planted(Defect::kNone));
  planted_defect = options.defect;
  std::vector<ServerId> servers;
  for (std::uint32_t i = 0; i < options.members; ++i) servers.push_back(server_of(i));
  coord::Change first;
  first.compare(record_key(kGroup), 0).put(record_key(kGroup), encode(new_group(servers, options.min)));
  SPATE_CHECK(service_.make(first).has_value());
  for (std::uint32_t i = 0; i < options.members; ++i) {
    const double place = static_cast<double>(random_.below(2001)) / 1000 - 1;
    machines_[i].rate = 1 + place * options.clock_spread;
    links_.push_back(std::make_unique<SimLink>(*this, i));
    start(i);
  }
}

GroupWorld::~GroupWorld() {
  actions_.clear();
  for (std::uint32_t i = 0; i < members(); ++i) {
    pause(i, false);
    if (process(i) != nullptr) kill(i);
  }
  const MonoTime limit = now() + std::chrono::hours(1);
  while (!processes_.empty()) {
    const bool more = turn(limit);
    SPATE_CHECK(more || processes_.empty());  // otherwise a process hangs
  }
  planted_defect = Defect::kNone;
}

void GroupWorld::start(std::uint32_t number) {
  Machine& machine = machines_[number];
  if (machine.running != nullptr) return;
  GroupProcessOptions options;
  options.member.group = kGroup;
  options.member.self = server_of(number);
  options.member.boot = machine.machine.boot;
  options.member.process = random_.next();
  options.member.timing.tail_wait = std::chrono::seconds(20);
  options.clock_rate = machine.rate;
  auto process = std::make_unique<GroupProcess>(clock_, machine.machine, service_, *links_[number], random_, options);
  machine.running = process.get();
  machine.paused = false;
  processes_.push_back(std::move(process));
}

void GroupWorld::supervise() {
  for (std::uint32_t i = 0; i < members(); ++i) {
    Machine& machine = machines_[i];
    if (machine.running == nullptr || machine.paused || machine.is_to_restart) continue;
    const Member& member = machine.running->member();
    if (!machine.running->member().resigned().is_set()) continue;
    machine.is_to_restart = true;
    after(member.pause(), [this, i, running = machine.running] {
      machines_[i].is_to_restart = false;
      if (machines_[i].running == running && !machines_[i].paused) restart(i);
    });
  }
  after(std::chrono::milliseconds(50), [this] { supervise(); });
}

void GroupWorld::restart(std::uint32_t number) {
  kill(number);
  start(number);
}

void GroupWorld::kill(std::uint32_t number) {
  Machine& machine = machines_[number];
  if (machine.running == nullptr) return;
  machine.running->die();
  machine.running = nullptr;
  machine.paused = false;
}

void GroupWorld::crash(std::uint32_t number) {
  kill(number);
  ++machines_[number].machine.boot;
  machines_[number].machine.disk->crash_machine(random_);
}

void GroupWorld::wipe(std::uint32_t number) {
  kill(number);
  GroupMachine& machine = machines_[number].machine;
  ++machine.boot;
  wiped_.push_back(std::move(machine.disk));
  machine.disk = std::make_unique<trove::SimKeyvalDisk>();
}

void GroupWorld::cut(std::uint32_t from, std::uint32_t to, bool is) {
  if (is) {
    cuts_.emplace(from, to);
  } else {
    cuts_.erase({from, to});
  }
}

MonoTime GroupWorld::latency_from_now() {
  Duration latency = latency_ / 10 + service_.draw(latency_);
  if (random_.chance(trouble_percent_, 100)) latency += service_.draw(std::chrono::seconds(3));
  return now() + latency;
}

std::optional<GroupRecord> GroupWorld::record() {
  const coord::Snapshot seen = service_.read(record_key(kGroup));
  if (seen.records.empty()) return std::nullopt;
  auto record = decode_group_record(seen.records.front().value);
  return record ? std::optional(*record) : std::nullopt;
}

bool GroupWorld::runs(const GroupProcess& process) const {
  return std::none_of(machines_.begin(), machines_.end(),
                      [&](const Machine& machine) { return machine.running == &process && machine.paused; });
}

bool GroupWorld::step_all() {
  bool did = false;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (runs(*processes_[i])) did |= processes_[i]->step();
  }
  return did;
}

bool GroupWorld::turn(MonoTime limit) {
  if (!actions_.empty() && actions_.begin()->first <= now()) {
    UniqueFunction<void()> action = std::move(actions_.begin()->second);
    actions_.erase(actions_.begin());
    action();
    return true;
  }
  if (step_all()) return true;
  std::erase_if(processes_, [](const auto& process) { return process->ended(); });
  MonoTime next = actions_.empty() ? MonoTime::never() : actions_.begin()->first;
  for (const auto& process : processes_) {
    if (runs(*process)) next = std::min(next, process->next_event_time());
  }
  if (next > limit) {
    if (limit > now()) clock_.set(limit);
    return false;
  }
  if (next > now()) clock_.set(next);
  for (const auto& process : processes_) {
    if (runs(*process)) process->run_store_until(now());
  }
  return true;
}

}  // namespace spate::group
