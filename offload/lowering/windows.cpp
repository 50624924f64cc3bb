#include "offload/lowering/windows.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "base/error.h"
#include "offload/plan/transfer_clock.h"

namespace longshore::offload {
namespace {

struct Use {
  int instruction;
  bool reads, writes;
};

// A time during which a window is on the device: uses that are near to each other, and where in the
// list of instructions its bytes come and go.
struct Visit {
  const Window* window;
  std::vector<Use> uses;
  int fetch = -1;        // before this instruction; -1: the first use writes all of it
  int first_write = -1;  // instruction; -1: nothing writes it
  int store = -1;        // after this instruction; -1: nothing writes it
  int buffer = -1;       // the temporary that holds the bytes
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
        // The bytes that it does not write must be there already.
        use.reads |= !covers_whole(plan, out);
      }
    uses.push_back(use);
  }
  return uses;
}

// The instructions that use each window, ascending, by the window's buffer.
std::map<int, std::vector<int>> users_of(const Plan& plan, std::span<const Window> windows) {
  std::map<int, std::vector<int>> users;
  for (const Window& window : windows) users[window.buffer];
  for (int i = 0; i < std::ssize(plan.instructions); ++i) {
    auto note = [&](const Operand& operand) {
      auto found = users.find(operand.buffer);
      if (found == users.end()) return;
      if (found->second.empty() || found->second.back() != i) found->second.push_back(i);
    };
    for (const Operand& operand : plan.instructions[i].in) note(operand);
    for (const Operand& operand : plan.instructions[i].out) note(operand);
  }
  return users;
}

// The visits of all windows, without their fetches and buffers.
std::vector<Visit> visits_of(const Plan& plan, std::span<const Window> windows,
                             const TransferClock& clock) {
  const std::map<int, std::vector<int>> users = users_of(plan, windows);
  std::vector<Visit> visits;
  for (const Window& window : windows) {
    const Use* previous = nullptr;
    const std::vector<Use> uses = uses_of(plan, window, users.at(window.buffer));
    for (const Use& use : uses) {
      if (!previous || !clock.are_near(previous->instruction, use.instruction))
        visits.push_back({.window = &window, .uses = {}});
      Visit& visit = visits.back();
      visit.uses.push_back(use);
      previous = &use;
      if (!use.writes) continue;
      if (visit.first_write < 0) visit.first_write = use.instruction;
      visit.store = use.instruction;
    }
  }
  return visits;
}

// Resolves operands that are windows to what the windows stand for.
class WindowSources {
 public:
  explicit WindowSources(std::span<const Window> windows) {
    for (const Window& window : windows) sources_[window.buffer] = window.source;
  }

  Operand resolve(const Operand& operand) const {
    auto found = sources_.find(operand.buffer);
    if (found == sources_.end()) return operand;
    return {found->second.buffer, found->second.offset + operand.offset, operand.type};
  }

 private:
  std::map<int, Operand> sources_;  // by the windows' buffers
};

// A range that some windows show is written: the newest bytes are elsewhere from instruction
// `begun` on, and are there after instruction `done`.
struct SourceWrite {
  Operand range;
  int begun, done;
  const Visit* by;  // nullptr for an instruction that writes the range itself
};

using SourceWrites = std::map<int, std::vector<SourceWrite>>;  // by buffer

SourceWrites source_writes(const Plan& plan, std::span<const Visit> visits,
                           std::span<const Window> windows, const WindowSources& unopened) {
  SourceWrites writes;
  for (const Window& window : windows) writes[unopened.resolve(window.source).buffer];
  for (int i = 0; i < std::ssize(plan.instructions); ++i)
    for (const Operand& out : plan.instructions[i].out) {
      const Operand range = unopened.resolve(out);
      if (auto found = writes.find(range.buffer); found != writes.end())
        found->second.push_back({range, i, i, nullptr});
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

// Fetches as early as the clock allows, but not before the newest bytes are at the source. From the
// visit's first use to its last read nothing else may bring newer bytes there.
void choose_fetch(Visit& visit, const Operand& source, const Plan& plan, const TransferClock& clock,
                  const std::vector<SourceWrite>& writes) {
  int first = visit.uses.front().instruction;
  auto last_read = std::find_if(visit.uses.rbegin(), visit.uses.rend(),
                                [](const Use& use) { return use.reads; });
  if (last_read == visit.uses.rend()) return;
  bool is_fetched = visit.uses.front().reads;
  if (is_fetched) visit.fetch = clock.fetch_start(first);
  for (const SourceWrite& write : writes) {
    if (write.by == &visit || !overlap(write.range, source)) continue;
    if (write.done >= first && write.begun < last_read->instruction)
      refuse_read(plan, last_read->instruction, visit.window->buffer);
    if (is_fetched && write.done < first) visit.fetch = std::max(visit.fetch, write.done + 1);
  }
}

// An instruction that reads host memory itself must find there what earlier instructions wrote
// through windows.
void check_host_reads(const Plan& plan, const SourceWrites& writes) {
  for (int i = 0; i < std::ssize(plan.instructions); ++i)
    for (const Operand& in : plan.instructions[i].in) {
      auto found = writes.find(in.buffer);
      if (found == writes.end()) continue;
      for (const SourceWrite& write : found->second)
        if (overlap(write.range, in) && write.begun < i && i <= write.done)
          refuse_read(plan, i, in.buffer);
    }
}

void choose_fetches(std::vector<Visit>& visits, const Plan& plan, std::span<const Window> windows,
                    const WindowSources& unopened, const TransferClock& clock) {
  const SourceWrites writes = source_writes(plan, visits, windows, unopened);
  for (Visit& visit : visits) {
    const Operand source = unopened.resolve(visit.window->source);
    choose_fetch(visit, source, plan, clock, writes.at(source.buffer));
  }
  check_host_reads(plan, writes);
}

// Gives each visit a temporary of its own, and lets the instructions use it in the window's place.
void give_buffers(Plan& plan, std::vector<Visit>& visits) {
  std::set<int> taken;
  for (Visit& visit : visits) {
    const int window = visit.window->buffer;
    visit.buffer = window;
    if (!taken.insert(window).second) {
      visit.buffer = static_cast<int>(plan.buffers.size());
      plan.buffers.push_back(plan.buffers[window]);
    }
    auto rename = [&](Operand& operand) {
      if (operand.buffer == window) operand.buffer = visit.buffer;
    };
    for (const Use& use : visit.uses) {
      for (Operand& operand : plan.instructions[use.instruction].in) rename(operand);
      for (Operand& operand : plan.instructions[use.instruction].out) rename(operand);
    }
  }
}

Instruction fetch_of(const Plan& plan, const Visit& visit) {
  const Window& window = *visit.window;
  Instruction fetch{.lane = Lane::host_to_device,
                    .in = {window.source},
                    .out = {{visit.buffer, 0, window.type}},
                    .name = plan.buffers[visit.buffer].name,
                    .scope = plan.instructions[visit.uses.front().instruction].scope};
  if (window.gather) {
    fetch.lane = Lane::network;
    fetch.op = &all_gather_op;
    fetch.attrs = *window.gather;
  }
  return fetch;
}

Instruction store_of(const Plan& plan, const Visit& visit) {
  const Window& window = *visit.window;
  if (window.gather)
    throw InternalError(plan.name + ": " + plan.buffers[window.buffer].name +
                        " is gathered, but something writes it");
  return {.lane = Lane::device_to_host,
          .in = {{visit.buffer, 0, window.type}},
          .out = {window.source},
          .name = plan.buffers[visit.buffer].name,
          .scope = plan.instructions[visit.store].scope};
}

// Inserts the fetches and stores of the visits into the list of instructions, those of one
// instruction in the order of the visits. Returns the new index of each former instruction.
std::vector<int> insert_moves(Plan& plan, std::span<const Visit> visits) {
  std::vector<std::vector<Instruction>> before(plan.instructions.size()), after = before;
  for (const Visit& visit : visits) {
    if (visit.fetch >= 0) before[visit.fetch].push_back(fetch_of(plan, visit));
    if (visit.store >= 0) after[visit.store].push_back(store_of(plan, visit));
  }
  std::vector<Instruction> list;
  std::vector<int> index;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    for (Instruction& move : before[i]) list.push_back(std::move(move));
    index.push_back(static_cast<int>(list.size()));
    list.push_back(std::move(plan.instructions[i]));
    for (Instruction& move : after[i]) list.push_back(std::move(move));
  }
  plan.instructions = std::move(list);
  return index;
}

// A hold while windows are being opened. It is of `buffer`, or, if that is -1, of what
// `instruction` reads once all windows are open.
struct PendingHold {
  int buffer, instruction, until;
};

// Opens windows of one kind, whose sources may be windows that are still `unopened`. Adds what is
// to be held to `holds`, and keeps the instructions in there up to date.
void open(Plan& plan, std::span<const Window> windows, std::span<const Window> unopened,
          const Transfers& transfers, std::vector<PendingHold>& holds) {
  if (windows.empty()) return;
  const TransferClock clock(plan, transfers.layers_ahead,
                            windows[0].gather ? Ticks::layers_only : Ticks::all);
  std::vector<Visit> visits = visits_of(plan, windows, clock);
  choose_fetches(visits, plan, windows, WindowSources(unopened), clock);
  // Fetches are wanted in the order of their first uses.
  std::stable_sort(visits.begin(), visits.end(), [](const Visit& a, const Visit& b) {
    return a.uses.front().instruction < b.uses.front().instruction;
  });
  give_buffers(plan, visits);
  for (const Visit& visit : visits)
    if (visit.store >= 0) holds.push_back({visit.buffer, -1, clock.hold_end(visit.store)});
  const std::vector<int> index = insert_moves(plan, visits);
  for (PendingHold& hold : holds) {
    hold.until = index[hold.until];
    if (hold.instruction >= 0) hold.instruction = index[hold.instruction];
  }
}

// Holds the temporaries that instructions send to the host or to other devices.
std::vector<PendingHold> hold_what_is_sent(const Plan& plan, const Transfers& transfers) {
  const TransferClock clock(plan, transfers.layers_ahead);
  std::vector<PendingHold> holds;
  for (int i = 0; i < std::ssize(plan.instructions); ++i) {
    const Instruction& instruction = plan.instructions[i];
    const bool sends = instruction.lane == Lane::device_to_host ||
                       instruction.op == &reduce_scatter_op || instruction.op == &all_gather_op;
    if (sends && plan.buffers[instruction.in[0].buffer].owner == Owner::plan)
      holds.push_back({-1, i, clock.hold_end(i)});
  }
  return holds;
}

}  // namespace

std::vector<Hold> open_windows(Plan& plan, std::span<const Window> windows,
                               std::span<const Hold> holds, const Transfers& transfers) {
  std::vector<Window> gathered, on_host;
  for (const Window& window : windows) (window.gather ? gathered : on_host).push_back(window);
  std::vector<PendingHold> pending;
  for (const Hold& hold : holds) pending.push_back({hold.buffer, -1, hold.until});
  open(plan, gathered, on_host, transfers, pending);
  std::ranges::move(hold_what_is_sent(plan, transfers), std::back_inserter(pending));
  open(plan, on_host, {}, transfers, pending);
  std::vector<Hold> all;
  for (const PendingHold& hold : pending)
    all.push_back(
        {hold.buffer >= 0 ? hold.buffer : plan.instructions[hold.instruction].in[0].buffer,
         hold.until});
  return all;
}

}  // namespace longshore::offload
