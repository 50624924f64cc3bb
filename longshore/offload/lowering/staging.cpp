#include "longshore/offload/lowering/staging.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "longshore/base/error.h"
#include "longshore/offload/plan/transfer_clock.h"

namespace longshore::offload {
namespace {

struct Use {
  int instruction;
  bool reads, writes;
};

// A time during which a staged range is on the device: uses that are near to each other, and where
// in the list of instructions its bytes come and go.
struct Residency {
  const StagedRange* of;
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

std::vector<Use> uses_of(const Plan& plan, const StagedRange& one,
                         const std::vector<int>& instructions) {
  std::vector<Use> uses;
  for (int i : instructions) {
    const Instruction& instruction = plan.instructions[i];
    Use use{i, false, false};
    for (const Operand& in : instruction.in) use.reads |= in.buffer == one.buffer;
    for (const Operand& out : instruction.out)
      if (out.buffer == one.buffer) {
        use.writes = true;
        // The bytes that it does not write must be there already.
        use.reads |= !covers_whole(plan, out);
      }
    uses.push_back(use);
  }
  return uses;
}

// The instructions that use each staged range, ascending, by the staged range's buffer.
std::map<int, std::vector<int>> users_of(const Plan& plan, std::span<const StagedRange> staged) {
  std::map<int, std::vector<int>> users;
  for (const StagedRange& one : staged) users[one.buffer];
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

// The residencies of all staged ranges, without their fetches and buffers.
std::vector<Residency> residencies_of(const Plan& plan, std::span<const StagedRange> staged,
                                      const TransferClock& clock) {
  const std::map<int, std::vector<int>> users = users_of(plan, staged);
  std::vector<Residency> residencies;
  for (const StagedRange& one : staged) {
    const Use* previous = nullptr;
    const std::vector<Use> uses = uses_of(plan, one, users.at(one.buffer));
    for (const Use& use : uses) {
      if (!previous || !clock.are_near(previous->instruction, use.instruction))
        residencies.push_back({.of = &one, .uses = {}});
      Residency& residency = residencies.back();
      residency.uses.push_back(use);
      previous = &use;
      if (!use.writes) continue;
      if (residency.first_write < 0) residency.first_write = use.instruction;
      residency.store = use.instruction;
    }
  }
  return residencies;
}

// Resolves operands that are staged ranges to what the staged ranges stand for.
class StagedSources {
 public:
  explicit StagedSources(std::span<const StagedRange> staged) {
    for (const StagedRange& one : staged) sources_[one.buffer] = one.source;
  }

  Operand resolve(const Operand& operand) const {
    auto found = sources_.find(operand.buffer);
    if (found == sources_.end()) return operand;
    return {found->second.buffer, found->second.offset + operand.offset, operand.type};
  }

 private:
  std::map<int, Operand> sources_;  // by the staged ranges' buffers
};

// A range that some staged ranges show is written: the newest bytes are elsewhere from instruction
// `begun` on, and are there after instruction `done`.
struct SourceWrite {
  Operand range;
  int begun, done;
  const Residency* by;  // nullptr for an instruction that writes the range itself
};

using SourceWrites = std::map<int, std::vector<SourceWrite>>;  // by buffer

SourceWrites source_writes(const Plan& plan, std::span<const Residency> residencies,
                           std::span<const StagedRange> staged, const StagedSources& unstaged) {
  SourceWrites writes;
  for (const StagedRange& one : staged) writes[unstaged.resolve(one.source).buffer];
  for (int i = 0; i < std::ssize(plan.instructions); ++i)
    for (const Operand& out : plan.instructions[i].out) {
      const Operand range = unstaged.resolve(out);
      if (auto found = writes.find(range.buffer); found != writes.end())
        found->second.push_back({range, i, i, nullptr});
    }
  for (const Residency& residency : residencies)
    if (residency.store >= 0)
      writes[residency.of->source.buffer].push_back(
          {residency.of->source, residency.first_write, residency.store, &residency});
  return writes;
}

[[noreturn]] void refuse_read(const Plan& plan, int instruction, int buffer) {
  throw InternalError(plan.name + ": " + plan.instructions[instruction].name + " reads " +
                      plan.buffers[buffer].name + " while newer bytes of it are elsewhere");
}

// Fetches as early as the clock allows, but not before the newest bytes are at the source. From the
// residency's first use to its last read nothing else may bring newer bytes there.
void choose_fetch(Residency& residency, const Operand& source, const Plan& plan,
                  const TransferClock& clock, const std::vector<SourceWrite>& writes) {
  int first = residency.uses.front().instruction;
  auto last_read = std::find_if(residency.uses.rbegin(), residency.uses.rend(),
                                [](const Use& use) { return use.reads; });
  if (last_read == residency.uses.rend()) return;
  bool is_fetched = residency.uses.front().reads;
  if (is_fetched) residency.fetch = clock.fetch_start(first);
  for (const SourceWrite& write : writes) {
    if (write.by == &residency || !overlap(write.range, source)) continue;
    if (write.done >= first && write.begun < last_read->instruction)
      refuse_read(plan, last_read->instruction, residency.of->buffer);
    if (is_fetched && write.done < first)
      residency.fetch = std::max(residency.fetch, write.done + 1);
  }
}

// An instruction that reads host memory itself must find there what earlier instructions wrote
// through staged ranges.
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

void choose_fetches(std::vector<Residency>& residencies, const Plan& plan,
                    std::span<const StagedRange> staged, const StagedSources& unstaged,
                    const TransferClock& clock) {
  const SourceWrites writes = source_writes(plan, residencies, staged, unstaged);
  for (Residency& residency : residencies) {
    const Operand source = unstaged.resolve(residency.of->source);
    choose_fetch(residency, source, plan, clock, writes.at(source.buffer));
  }
  check_host_reads(plan, writes);
}

// Gives each residency a temporary of its own, and lets the instructions use it in the staged
// range's place.
void give_buffers(Plan& plan, std::vector<Residency>& residencies) {
  std::set<int> taken;
  for (Residency& residency : residencies) {
    const int first = residency.of->buffer;
    residency.buffer = first;
    if (!taken.insert(first).second) {
      residency.buffer = static_cast<int>(plan.buffers.size());
      plan.buffers.push_back(plan.buffers[first]);
    }
    auto rename = [&](Operand& operand) {
      if (operand.buffer == first) operand.buffer = residency.buffer;
    };
    for (const Use& use : residency.uses) {
      for (Operand& operand : plan.instructions[use.instruction].in) rename(operand);
      for (Operand& operand : plan.instructions[use.instruction].out) rename(operand);
    }
  }
}

Instruction fetch_of(const Plan& plan, const Residency& residency) {
  const StagedRange& one = *residency.of;
  Instruction fetch{.lane = Lane::host_to_device,
                    .in = {one.source},
                    .out = {{residency.buffer, 0, one.type}},
                    .name = plan.buffers[residency.buffer].name,
                    .scope = plan.instructions[residency.uses.front().instruction].scope};
  if (one.gather) {
    fetch.lane = Lane::network;
    fetch.op = &models::all_gather_op;
    fetch.attrs = *one.gather;
  }
  return fetch;
}

Instruction store_of(const Plan& plan, const Residency& residency) {
  const StagedRange& one = *residency.of;
  if (one.gather)
    throw InternalError(plan.name + ": " + plan.buffers[one.buffer].name +
                        " is gathered, but something writes it");
  return {.lane = Lane::device_to_host,
          .in = {{residency.buffer, 0, one.type}},
          .out = {one.source},
          .name = plan.buffers[residency.buffer].name,
          .scope = plan.instructions[residency.store].scope};
}

// Inserts the fetches and stores of the residencies into the list of instructions, those of one
// instruction in the order of the residencies. Returns the new index of each former instruction.
std::vector<int> insert_moves(Plan& plan, std::span<const Residency> residencies) {
  std::vector<std::vector<Instruction>> before(plan.instructions.size()), after = before;
  for (const Residency& residency : residencies) {
    if (residency.fetch >= 0) before[residency.fetch].push_back(fetch_of(plan, residency));
    if (residency.store >= 0) after[residency.store].push_back(store_of(plan, residency));
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

// A keep-alive while ranges are being staged. It is of `buffer`, or, if that is -1, of what
// `instruction` reads once all are.
struct PendingKeepAlive {
  int buffer, instruction, until;
};

// Stages ranges of one kind, whose sources may be staged ranges that are still `unstaged`.
// Adds what is to be kept to `keep_alives`, and keeps the instructions in there up to date.
void stage(Plan& plan, std::span<const StagedRange> staged, std::span<const StagedRange> unstaged,
           const Transfers& transfers, std::vector<PendingKeepAlive>& keep_alives) {
  if (staged.empty()) return;
  const TransferClock clock(plan, transfers.prefetch_layers,
                            staged[0].gather ? Ticks::layers_only : Ticks::all);
  std::vector<Residency> residencies = residencies_of(plan, staged, clock);
  choose_fetches(residencies, plan, staged, StagedSources(unstaged), clock);
  // Fetches are wanted in the order of their first uses.
  std::stable_sort(residencies.begin(), residencies.end(),
                   [](const Residency& a, const Residency& b) {
                     return a.uses.front().instruction < b.uses.front().instruction;
                   });
  give_buffers(plan, residencies);
  for (const Residency& residency : residencies)
    if (residency.store >= 0)
      keep_alives.push_back({residency.buffer, -1, clock.keep_end(residency.store)});
  const std::vector<int> index = insert_moves(plan, residencies);
  for (PendingKeepAlive& keep_alive : keep_alives) {
    keep_alive.until = index[keep_alive.until];
    if (keep_alive.instruction >= 0) keep_alive.instruction = index[keep_alive.instruction];
  }
}

// Keeps the temporaries that instructions send to the host or to other devices.
std::vector<PendingKeepAlive> keep_what_is_sent(const Plan& plan, const Transfers& transfers) {
  const TransferClock clock(plan, transfers.prefetch_layers);
  std::vector<PendingKeepAlive> keep_alives;
  for (int i = 0; i < std::ssize(plan.instructions); ++i) {
    const Instruction& instruction = plan.instructions[i];
    // An all_reduce may write over what it sends.
    const bool sends =
        instruction.lane == Lane::device_to_host ||
        (instruction.lane == Lane::network && instruction.op != &models::all_reduce_op);
    if (sends && plan.buffers[instruction.in[0].buffer].owner == Owner::plan)
      keep_alives.push_back({-1, i, clock.keep_end(i)});
  }
  return keep_alives;
}

}  // namespace

std::vector<KeepAlive> insert_staging(Plan& plan, std::span<const StagedRange> staged,
                                      std::span<const KeepAlive> keep_alives,
                                      const Transfers& transfers) {
  std::vector<StagedRange> gathered, on_host;
  for (const StagedRange& one : staged) (one.gather ? gathered : on_host).push_back(one);
  std::vector<PendingKeepAlive> pending;
  for (const KeepAlive& keep_alive : keep_alives)
    pending.push_back({keep_alive.buffer, -1, keep_alive.until});
  stage(plan, gathered, on_host, transfers, pending);
  std::ranges::move(keep_what_is_sent(plan, transfers), std::back_inserter(pending));
  stage(plan, on_host, {}, transfers, pending);
  std::vector<KeepAlive> all;
  for (const PendingKeepAlive& keep_alive : pending)
    all.push_back({keep_alive.buffer >= 0 ? keep_alive.buffer
                                          : plan.instructions[keep_alive.instruction].in[0].buffer,
                   keep_alive.until});
  return all;
}

}  // namespace longshore::offload
