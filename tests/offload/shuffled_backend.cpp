#include "tests/offload/shuffled_backend.h"

#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "longshore/base/error.h"
#include "longshore/offload/backends/cpu_backend.h"
#include "tests/offload/forwarding_backend.h"

namespace longshore::offload {
namespace {

struct Task {
  std::function<void()> work;  // none for waits and records
  int64_t waits_for = 0;       // ticket of a record; 0: for none
  int64_t records = 0;
};

// Memory is the CPU's.
class ShuffledBackend : public ForwardingBackend {
 public:
  explicit ShuffledBackend(uint32_t seed) : ForwardingBackend(make_cpu_backend()), random_(seed) {}

  void run(Lane on, const models::Op& op, const models::KernelCall& call) override {
    lane(on).push_back({[&op, call] { op.cpu.run(call); }});
  }
  void copy(Lane on, const models::Ref& from, const models::Ref& to) override {
    lane(on).push_back({[from, to] { std::memcpy(to.data, from.data, from.type.bytes()); }});
  }
  void record(Lane on, int event) override {
    lane(on).push_back({.records = events_[event] = ++tickets_});
  }
  void wait(Lane on, int event) override { lane(on).push_back({.waits_for = events_.at(event)}); }

  void synchronize() override {
    // Some rounds favour one lane throughout: the others then come as late as they may.
    size_t favourite = random_() % (kLanes.size() + 1);
    for (;;) {
      std::vector<size_t> ready;
      bool is_empty = true;
      for (size_t i = 0; i < lanes_.size(); ++i) {
        is_empty = is_empty && lanes_[i].empty();
        if (!lanes_[i].empty() &&
            (lanes_[i].front().waits_for == 0 || done_.count(lanes_[i].front().waits_for)))
          ready.push_back(i);
      }
      if (is_empty) return;
      if (ready.empty()) throw InternalError("the lanes wait for each other");
      size_t chosen = ready[random_() % ready.size()];
      for (size_t i : ready)
        if (i == favourite) chosen = i;
      Task task = std::move(lanes_[chosen].front());
      lanes_[chosen].pop_front();
      if (task.work) task.work();
      if (task.records) done_.insert(task.records);
    }
  }

 private:
  std::deque<Task>& lane(Lane lane) { return lanes_[static_cast<size_t>(lane)]; }

  std::mt19937 random_;
  std::array<std::deque<Task>, kLanes.size()> lanes_;
  std::map<int, int64_t> events_;  // the ticket of each event's latest record
  std::set<int64_t> done_;
  int64_t tickets_ = 0;
};

}  // namespace

std::unique_ptr<Backend> make_shuffled_backend(uint32_t seed) {
  return std::make_unique<ShuffledBackend>(seed);
}

}  // namespace longshore::offload
