#include "offload/windows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"

namespace longshore::offload {
namespace {

// Time as the number of compute instructions that come before.
class Clock {
 public:
  Clock(const Plan& plan, const Transfers& transfers)
      : plan_(plan), reach_(plan.instructions.size()) {
    const std::vector<Instruction>& list = plan.instructions;
    for (const Instruction& instruction : list) {
      now_.push_back(static_cast<int>(ticks_.size()));
      if (instruction.lane == Lane::compute) ticks_.push_back(static_cast<int>(now_.size()) - 1);
    }
    std::vector<int> layer, chunk;  // the instructions of the layer, and of the update, at hand
    int chunk_before = 0;           // when it began
    auto set_reach = [&](std::vector<int>& group, int length) {
      for (int i : group) reach_[i] = static_cast<int>(std::ceil(transfers.layers_ahead * length));
      group.clear();
    };
    auto close_layer = [&] {
      if (layer.empty()) return;
      size_t behind = static_cast<size_t>(layer.back()) + 1;
      int end = behind < list.size() ? now_[behind] : static_cast<int>(ticks_.size());
      set_reach(layer, end - now_[layer.front()]);
    };
    // Updates may stand among the instructions of a layer; each counts from the one before.
    auto close_chunk = [&] {
      if (chunk.empty()) return;
      int begin = now_[chunk.front()];
      set_reach(chunk, begin - chunk_before);
      chunk_before = begin;
    };
    for (int i = 0; i < std::ssize(list); ++i) {
      bool updates = list[i].place.phase == Phase::optimizer;
      std::vector<int>& group = updates ? chunk : layer;
      if (!group.empty() && list[group.back()].place != list[i].place)
        updates ? close_chunk() : close_layer();
      group.push_back(i);
    }
    close_layer();
    close_chunk();
  }

  // Whether two uses are so near to each other that a window stays open between them.
  bool near(int earlier, int later) const {
    return now_[later] - now_[earlier] <= std::max(1, reach_[later]);
  }
  // The instruction before which a move that `instruction` waits for starts.
  int ahead(int instruction) const {
    int tick = now_[instruction] - reach_[instruction];
    return tick < 0 ? 0 : std::min(instruction, at(tick));
  }
  // The instruction until which what is sent after, or by, `instruction` is held.
  int behind(int instruction) const {
    bool computes = plan_.instructions[instruction].lane == Lane::compute;
    int tick = computes ? now_[instruction] : now_[instruction] - 1;
    return std::max(instruction, at(std::max(0, tick + reach_[instruction])));
  }

 private:
  int at(int tick) const {
    return tick < static_cast<int>(ticks_.size()) ? ticks_[tick]
                                                  : static_cast<int>(now_.size()) - 1;
  }

  const Plan& plan_;
  std::vector<int> now_;    // by instruction
  std::vector<int> ticks_;  // the compute instructions
  std::vector<int> reach_;  // by instruction, in ticks
};

struct Use {
  int instruction;
  bool reads, writes;
};

// A time during which a window is on the device, and where in the list it comes and goes.
struct Visit {
  const Window* window;
  std::vector<Use> uses;
  int fetch = -1;        // before this instruction; -1: it starts with being written
  int first_write = -1;  // instruction
  int store = -1;        // after this instruction; -1: nothing is written
};

bool covers_whole(const Plan& plan, const Operand& operand) {
  return operand.offset == 0 && operand.type.bytes() == plan.buffers[operand.buffer].bytes;
}

bool overlap(const Operand& a, const Operand& b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.type.bytes() &&
         b.offset < a.offset + a.type.bytes();
}

std::vector<Use> uses_of(const Plan& plan, const Window& window,
                         const std::vector<int>& instructions) {
  std::vector<Use> uses;
  for (int i : instructions) {
    const Instruction& instruction = plan.instructions[i];
    Use use{i, false, false};
    for (const Operand& in : instruction.in) use.reads |= in.buffer == window.buffer;
    for (const Operand& out : instruction.out)
      if (out.buffer == window.buffer) {
        use.writes = true;
        // What is not written must be there already.
        use.reads |= !covers_whole(plan, out);
      }
    uses.push_back(use);
  }
  return uses;
}

std::vector<Visit> visits_of(const Plan& plan, std::span<const Window> windows,
                             const Clock& clock) {
  std::map<int, std::vector<int>> users;  // by window buffer, ascending
  for (const Window& window : windows) users[window.buffer];
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    auto note = [&](const Operand& operand) {
      auto found = users.find(operand.buffer);
      if (found == users.end()) return;
      if (found->second.empty() || found->second.back() != static_cast<int>(i))
        found->second.push_back(static_cast<int>(i));
    };
    for (const Operand& operand : plan.instructions[i].in) note(operand);
    for (const Operand& operand : plan.instructions[i].out) note(operand);
  }

  std::vector<Visit> visits;
  for (const Window& window : windows) {
    const Use* previous = nullptr;
    std::vector<Use> uses = uses_of(plan, window, users.at(window.buffer));
    for (const Use& use : uses) {
      if (!previous || !clock.near(previous->instruction, use.instruction))
        visits.push_back({.window = &window, .uses = {}});
      visits.back().uses.push_back(use);
      previous = &use;
    }
  }
  for (Visit& visit : visits)
    for (const Use& use : visit.uses) {
      if (!use.writes) continue;
      if (visit.first_write < 0) visit.first_write = use.instruction;
      visit.store = use.instruction;
    }
  return visits;
}

// What is written to host memory, and when it is there: after which instruction.
struct HostWrite {
  Operand range;
  int begun, done;
  const Visit* by;  // null for instructions that stood in the plan already
};

std::map<int, std::vector<HostWrite>> host_writes(const Plan& plan,
                                                  const std::vector<Visit>& visits) {
  std::map<int, std::vector<HostWrite>> writes;  // by buffer
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    for (const Operand& out : plan.instructions[i].out)
      if (plan.buffers[out.buffer].kind == MemoryKind::pinned_host)
        writes[out.buffer].push_back({out, static_cast<int>(i), static_cast<int>(i), nullptr});
  for (const Visit& visit : visits)
    if (visit.store >= 0)
      writes[visit.window->host.buffer].push_back(
          {visit.window->host, visit.first_write, visit.store, &visit});
  return writes;
}

[[noreturn]] void refuse_read(const Plan& plan, int instruction, int buffer) {
  throw InternalError(plan.name + ": " + plan.instructions[instruction].name + " reads " +
                      plan.buffers[buffer].name + " while newer bytes of it are elsewhere");
}

// As early as the lookahead allows, but not before its bytes are on the host. From its first use to
// its last read nothing else may bring newer ones there.
void choose_fetch(Visit& visit, const Plan& plan, const Clock& clock,
                  const std::vector<HostWrite>& writes) {
  int first = visit.uses.front().instruction;
  auto last_read = std::find_if(visit.uses.rbegin(), visit.uses.rend(),
                                [](const Use& use) { return use.reads; });
  if (last_read == visit.uses.rend()) return;
  bool is_fetched = visit.uses.front().reads;
  if (is_fetched) visit.fetch = clock.ahead(first);
  for (const HostWrite& write : writes) {
    if (write.by == &visit || !overlap(write.range, visit.window->host)) continue;
    if (write.done >= first && write.begun < last_read->instruction)
      refuse_read(plan, last_read->instruction, visit.window->buffer);
    if (is_fetched && write.done < first) visit.fetch = std::max(visit.fetch, write.done + 1);
  }
}

// Who reads host memory itself must find there what windows were given before.
void check_host_reads(const Plan& plan, const std::map<int, std::vector<HostWrite>>& writes) {
  for (int i = 0; i < std::ssize(plan.instructions); ++i)
    for (const Operand& in : plan.instructions[i].in) {
      auto found = writes.find(in.buffer);
      if (found == writes.end()) continue;
      for (const HostWrite& write : found->second)
        if (overlap(write.range, in) && write.begun < i && i <= write.done)
          refuse_read(plan, i, in.buffer);
    }
}

}  // namespace

std::vector<Hold> open_windows(Plan& plan, std::span<const Window> windows,
                               const Transfers& transfers) {
  Clock clock(plan, transfers);
  std::vector<Visit> visits = visits_of(plan, windows, clock);
  std::map<int, std::vector<HostWrite>> writes = host_writes(plan, visits);
  for (Visit& visit : visits) choose_fetch(visit, plan, clock, writes[visit.window->host.buffer]);
  check_host_reads(plan, writes);

  // Fetches stand in the order of their first uses, which is the order they are wanted in.
  std::stable_sort(visits.begin(), visits.end(), [](const Visit& a, const Visit& b) {
    return a.uses.front().instruction < b.uses.front().instruction;
  });
  std::vector<std::vector<Instruction>> before(plan.instructions.size()), after = before;
  std::vector<std::pair<int, int>> held;  // buffer, instruction
  std::set<int> taken;
  for (const Visit& visit : visits) {
    const Window& window = *visit.window;
    int temporary = window.buffer;  // the first visit's; each further one has its own
    if (!taken.insert(temporary).second) {
      temporary = static_cast<int>(plan.buffers.size());
      plan.buffers.push_back(plan.buffers[window.buffer]);
    }
    auto rename = [&](Operand& operand) {
      if (operand.buffer == window.buffer) operand.buffer = temporary;
    };
    for (const Use& use : visit.uses) {
      for (Operand& operand : plan.instructions[use.instruction].in) rename(operand);
      for (Operand& operand : plan.instructions[use.instruction].out) rename(operand);
    }
    Operand device{temporary, 0, window.host.type};
    auto move = [&](Lane lane, const Operand& from, const Operand& to, int place_of) {
      return Instruction{.lane = lane,
                         .in = {from},
                         .out = {to},
                         .name = plan.buffers[window.buffer].name,
                         .place = plan.instructions[place_of].place};
    };
    if (visit.fetch >= 0)
      before[visit.fetch].push_back(
          move(Lane::host_to_device, window.host, device, visit.uses.front().instruction));
    if (visit.store >= 0) {
      after[visit.store].push_back(move(Lane::device_to_host, device, window.host, visit.store));
      held.push_back({temporary, clock.behind(visit.store)});
    }
  }
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& instruction = plan.instructions[i];
    if (instruction.lane == Lane::device_to_host &&
        plan.buffers[instruction.in[0].buffer].owner == Owner::plan)
      held.push_back({instruction.in[0].buffer, clock.behind(static_cast<int>(i))});
  }

  std::vector<Instruction> list;
  std::vector<int> index;  // of each former instruction
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    for (Instruction& move : before[i]) list.push_back(std::move(move));
    index.push_back(static_cast<int>(list.size()));
    list.push_back(std::move(plan.instructions[i]));
    for (Instruction& move : after[i]) list.push_back(std::move(move));
  }
  plan.instructions = std::move(list);

  std::vector<Hold> holds;
  for (auto [buffer, until] : held) holds.push_back({buffer, index[until]});
  return holds;
}

}  // namespace longshore::offload
