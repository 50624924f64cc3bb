#include "offload/windows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"

namespace longshore::offload {
namespace {

// Compute instructions are ticks; stretches of them, layer after layer or update after update, are
// units of time, however many ticks each has.
class Stretches {
 public:
  void begin(int tick) { begins_.push_back(tick); }
  int count() const { return static_cast<int>(begins_.size()); }

  double time(int stretch, int tick, int end) const {
    int length = std::max(1, this->end(stretch, end) - begins_[stretch]);
    return stretch + static_cast<double>(tick - begins_[stretch]) / length;
  }
  // The first tick at or after that time; before the first stretch there is only the beginning.
  int tick(double time, int end) const {
    if (time <= 0) return 0;
    if (time >= count()) return end;
    int stretch = static_cast<int>(time);
    int length = this->end(stretch, end) - begins_[stretch];
    return begins_[stretch] + static_cast<int>(std::ceil((time - stretch) * length - 1e-9));
  }

 private:
  int end(int stretch, int end) const { return stretch + 1 < count() ? begins_[stretch + 1] : end; }

  std::vector<int> begins_;  // ticks
};

// Updates that count as a layer. One ahead is not enough where several stand behind one long
// kernel.
constexpr double kUpdatesOfALayer = 4;

// Whose instructions the clock goes by. Devices differ in how their shares of a slab are updated,
// and so in those instructions; what they do together must stand in the same order on all of them.
enum class Ticks { all, of_layers };

class Clock {
 public:
  Clock(const Plan& plan, const Transfers& transfers, Ticks ticks = Ticks::all)
      : plan_(plan), layers_ahead_(transfers.layers_ahead) {
    for (const Instruction& instruction : plan.instructions) {
      bool is_update = instruction.place.phase == Phase::optimizer;
      // Collectives and what the host gives stand also within layers that are not theirs.
      bool is_guest = instruction.lane == Lane::network ||
                      instruction.lane == Lane::host_to_device ||
                      (is_update && ticks == Ticks::of_layers);
      int tick = static_cast<int>(ticks_.size()), now = static_cast<int>(moments_.size());
      // Updates may stand among the instructions of a layer, which goes on behind them.
      bool keeps_own_time = is_update && ticks == Ticks::all;
      const Place*& place = keeps_own_time ? update_ : layer_;
      Stretches& stretches = keeps_own_time ? updates_ : layers_;
      if (!place || (!is_guest && *place != instruction.place)) {
        stretches.begin(tick);
        place = &instruction.place;
      }
      moments_.push_back({&stretches, stretches.count() - 1, tick});
      if (instruction.lane == Lane::compute && !(is_update && is_guest)) ticks_.push_back(now);
    }
  }

  // Whether two uses are so near to each other that a window stays open between them.
  bool near(int earlier, int later) const {
    int apart = moments_[later].tick - moments_[earlier].tick;
    return apart <= 1 || moments_[earlier].tick >= ahead_tick(later);
  }
  // The instruction before which a move that `instruction` waits for starts.
  int ahead(int instruction) const { return std::min(instruction, at(ahead_tick(instruction))); }
  // The instruction until which what is sent after, or by, `instruction` is held.
  int behind(int instruction) const {
    const Moment& moment = moments_[instruction];
    bool computes = plan_.instructions[instruction].lane == Lane::compute;
    int tick = moment.stretches->tick(time(moment) + distance(moment), end()) - (computes ? 0 : 1);
    return std::max(instruction, at(std::max(0, tick)));
  }

 private:
  struct Moment {
    const Stretches* stretches;
    int stretch, tick;
  };

  int end() const { return static_cast<int>(ticks_.size()); }
  double time(const Moment& moment) const {
    return moment.stretches->time(moment.stretch, moment.tick, end());
  }
  double distance(const Moment& moment) const {
    return layers_ahead_ * (moment.stretches == &updates_ ? kUpdatesOfALayer : 1);
  }
  int ahead_tick(int instruction) const {
    const Moment& moment = moments_[instruction];
    return moment.stretches->tick(time(moment) - distance(moment), end());
  }
  int at(int tick) const {
    return tick < end() ? ticks_[tick] : static_cast<int>(moments_.size()) - 1;
  }

  const Plan& plan_;
  double layers_ahead_;
  Stretches layers_, updates_;
  const Place *layer_ = nullptr, *update_ = nullptr;  // at hand
  std::vector<Moment> moments_;                       // of instructions
  std::vector<int> ticks_;                            // the compute instructions
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

// What is written of windows' sources, and when it is there: after which instruction.
struct SourceWrite {
  Operand range;
  int begun, done;
  const Visit* by;  // null for instructions that stood in the plan already
};

// Through windows that are not opened yet one sees what they stand for.
class Behind {
 public:
  explicit Behind(std::span<const Window> windows) {
    for (const Window& window : windows) sources_[window.buffer] = window.source;
  }
  Operand operator()(const Operand& operand) const {
    auto found = sources_.find(operand.buffer);
    if (found == sources_.end()) return operand;
    return {found->second.buffer, found->second.offset + operand.offset, operand.type};
  }

 private:
  std::map<int, Operand> sources_;  // by the windows' buffers
};

std::map<int, std::vector<SourceWrite>> source_writes(const Plan& plan,
                                                      std::span<const Visit> visits,
                                                      std::span<const Window> windows,
                                                      const Behind& behind) {
  std::map<int, std::vector<SourceWrite>> writes;  // by buffer
  for (const Window& window : windows) writes[behind(window.source).buffer];
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    for (const Operand& out : plan.instructions[i].out) {
      const Operand range = behind(out);
      if (auto found = writes.find(range.buffer); found != writes.end())
        found->second.push_back({range, static_cast<int>(i), static_cast<int>(i), nullptr});
    }
  for (const Visit& visit : visits)
    if (visit.store >= 0)
      writes[visit.window->source.buffer].push_back(
          {visit.window->source, visit.first_write, visit.store, &visit});
  return writes;
}

[[noreturn]] void refuse_read(const Plan& plan, int instruction, int buffer) {
  throw InternalError(plan.name + ": " + plan.instructions[instruction].name + " reads " +
                      plan.buffers[buffer].name + " while newer bytes of it are elsewhere");
}

// As early as the lookahead allows, but not before its bytes are at the source. From its first use
// to its last read nothing else may bring newer ones there.
void choose_fetch(Visit& visit, const Operand& source, const Plan& plan, const Clock& clock,
                  const std::vector<SourceWrite>& writes) {
  int first = visit.uses.front().instruction;
  auto last_read = std::find_if(visit.uses.rbegin(), visit.uses.rend(),
                                [](const Use& use) { return use.reads; });
  if (last_read == visit.uses.rend()) return;
  bool is_fetched = visit.uses.front().reads;
  if (is_fetched) visit.fetch = clock.ahead(first);
  for (const SourceWrite& write : writes) {
    if (write.by == &visit || !overlap(write.range, source)) continue;
    if (write.done >= first && write.begun < last_read->instruction)
      refuse_read(plan, last_read->instruction, visit.window->buffer);
    if (is_fetched && write.done < first) visit.fetch = std::max(visit.fetch, write.done + 1);
  }
}

// Who reads host memory itself must find there what windows were given before.
void check_host_reads(const Plan& plan, const std::map<int, std::vector<SourceWrite>>& writes) {
  for (int i = 0; i < std::ssize(plan.instructions); ++i)
    for (const Operand& in : plan.instructions[i].in) {
      auto found = writes.find(in.buffer);
      if (found == writes.end()) continue;
      for (const SourceWrite& write : found->second)
        if (overlap(write.range, in) && write.begun < i && i <= write.done)
          refuse_read(plan, i, in.buffer);
    }
}

// A hold in the making: of that buffer, or of what an instruction reads in the end.
struct Holding {
  int buffer, instruction, until;
};

// Windows of one kind; those of `later` may lie behind them. What is held is kept up to date.
void open(Plan& plan, std::span<const Window> windows, std::span<const Window> later,
          const Transfers& transfers, std::vector<Holding>& held) {
  if (windows.empty()) return;
  Clock clock(plan, transfers, windows[0].gather ? Ticks::of_layers : Ticks::all);
  Behind behind(later);
  std::vector<Visit> visits = visits_of(plan, windows, clock);
  std::map<int, std::vector<SourceWrite>> writes = source_writes(plan, visits, windows, behind);
  for (Visit& visit : visits) {
    const Operand source = behind(visit.window->source);
    choose_fetch(visit, source, plan, clock, writes[source.buffer]);
  }
  check_host_reads(plan, writes);

  // Fetches stand in the order of their first uses, which is the order they are wanted in.
  std::stable_sort(visits.begin(), visits.end(), [](const Visit& a, const Visit& b) {
    return a.uses.front().instruction < b.uses.front().instruction;
  });
  std::vector<std::vector<Instruction>> before(plan.instructions.size()), after = before;
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
    Operand device{temporary, 0, window.type};
    auto move = [&](Lane lane, const Operand& from, const Operand& to, int place_of) {
      return Instruction{.lane = lane,
                         .in = {from},
                         .out = {to},
                         .name = plan.buffers[window.buffer].name,
                         .place = plan.instructions[place_of].place};
    };
    if (visit.fetch >= 0) {
      Instruction fetch =
          move(Lane::host_to_device, window.source, device, visit.uses.front().instruction);
      if (window.gather) {
        fetch.lane = Lane::network;
        fetch.op = &all_gather_op;
        fetch.attrs = *window.gather;
      }
      before[visit.fetch].push_back(std::move(fetch));
    }
    if (visit.store >= 0) {
      if (window.gather)
        throw InternalError(plan.name + ": " + plan.buffers[window.buffer].name +
                            " is gathered, but something writes it");
      after[visit.store].push_back(move(Lane::device_to_host, device, window.source, visit.store));
      held.push_back({temporary, -1, clock.behind(visit.store)});
    }
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
  for (Holding& holding : held) {
    holding.until = index[holding.until];
    if (holding.instruction >= 0) holding.instruction = index[holding.instruction];
  }
}

// What leaves the device, or this device, from a temporary must not be written over at once.
std::vector<Holding> hold_what_leaves(const Plan& plan, const Transfers& transfers) {
  Clock clock(plan, transfers);
  std::vector<Holding> held;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& instruction = plan.instructions[i];
    bool leaves = instruction.lane == Lane::device_to_host || instruction.op == &reduce_scatter_op;
    if (leaves && plan.buffers[instruction.in[0].buffer].owner == Owner::plan)
      held.push_back({-1, static_cast<int>(i), clock.behind(static_cast<int>(i))});
  }
  return held;
}

}  // namespace

std::vector<Hold> open_windows(Plan& plan, std::span<const Window> windows,
                               const Transfers& transfers) {
  std::vector<Window> gathered, on_host;
  for (const Window& window : windows) (window.gather ? gathered : on_host).push_back(window);
  std::vector<Holding> held = hold_what_leaves(plan, transfers);
  open(plan, gathered, on_host, transfers, held);
  open(plan, on_host, {}, transfers, held);
  std::vector<Hold> holds;
  for (const Holding& h : held)
    holds.push_back(
        {h.instruction < 0 ? h.buffer : plan.instructions[h.instruction].in[0].buffer, h.until});
  return holds;
}

}  // namespace longshore::offload
