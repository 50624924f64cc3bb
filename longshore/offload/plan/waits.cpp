#include "longshore/offload/plan/waits.h"

#include <algorithm>
#include <map>

namespace longshore::offload {
namespace {

constexpr int kNone = -1;

// By lane, the latest instruction that is known to have finished (F. Mattern, Virtual Time and
// Global States of Distributed Systems, 1989).
using VectorClock = PerLane<int>;

// The latest uses of some bytes: the last write, and the reads since then. A write waits for all
// uses before it, so whoever waits for the write need not wait for those.
struct LatestUses {
  int64_t end = 0;
  int write = kNone;
  PerLane<int> reads = [] {
    PerLane<int> none{};
    none.fill(kNone);
    return none;
  }();
};

// One memory: an arena or an argument. It is divided into pieces, which do not overlap. Bytes that
// lie in no piece were not used yet.
class Memory {
 public:
  // Appends to `earlier` the instructions, on all lanes, that a use of these bytes must come after.
  void collect(int64_t begin, int64_t end, bool writes, std::vector<int>& earlier) const {
    for (auto piece = first(begin); piece != pieces_.end() && piece->first < end; ++piece) {
      const LatestUses& uses = piece->second;
      if (uses.write != kNone) earlier.push_back(uses.write);
      if (!writes) continue;
      for (int read : uses.reads)
        if (read != kNone) earlier.push_back(read);
    }
  }

  void note_write(int64_t begin, int64_t end, int instruction) {
    cut(begin);
    cut(end);
    pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
    LatestUses uses;
    uses.end = end;
    uses.write = instruction;
    pieces_[begin] = uses;
  }

  void note_read(int64_t begin, int64_t end, int instruction, Lane lane) {
    cut(begin);
    cut(end);
    int64_t at = begin;
    for (auto piece = pieces_.lower_bound(begin); at < end; ++piece) {
      // Nothing used these bytes yet: they were there before the plan ran.
      if (piece == pieces_.end() || piece->first > at) {
        int64_t next = piece == pieces_.end() ? end : std::min(end, piece->first);
        piece = pieces_.emplace_hint(piece, at, LatestUses{});
        piece->second.end = next;
      }
      piece->second.reads[lane] = instruction;
      at = piece->second.end;
    }
  }

 private:
  using Pieces = std::map<int64_t, LatestUses>;  // by their first byte

  Pieces::const_iterator first(int64_t begin) const {
    auto piece = pieces_.upper_bound(begin);
    if (piece != pieces_.begin() && std::prev(piece)->second.end > begin) --piece;
    return piece;
  }

  void cut(int64_t at) {
    auto piece = pieces_.lower_bound(at);
    if (piece == pieces_.begin()) return;
    --piece;
    if (piece->second.end <= at) return;
    LatestUses rest = piece->second;
    piece->second.end = at;
    pieces_[at] = rest;
  }

  Pieces pieces_;
};

struct Range {
  int memory;
  int64_t begin, end;
};

Range range_of(const Plan& plan, const Operand& operand, int64_t bytes) {
  const Buffer& buffer = plan.buffers[operand.buffer];
  int64_t kinds = static_cast<int64_t>(kMemoryKinds.size());
  bool is_argument = buffer.owner == Owner::caller;
  int memory =
      is_argument ? static_cast<int>(kinds) + operand.buffer : static_cast<int>(buffer.kind);
  int64_t begin = (is_argument ? 0 : buffer.offset) + operand.offset;
  return {memory, begin, begin + bytes};
}

// Of one instruction; made once and filled anew for each.
struct Accesses {
  std::vector<Range> reads, writes;
};

void find_accesses(const Plan& plan, const Instruction& instruction, Accesses& accesses) {
  accesses.reads.clear();
  accesses.writes.clear();
  for (const Operand& in : instruction.in)
    accesses.reads.push_back(range_of(plan, in, in.type.bytes()));
  for (const Operand& out : instruction.out)
    accesses.writes.push_back(range_of(plan, out, out.type.bytes()));
  if (const Operand& workspace = instruction.workspace)
    accesses.writes.push_back(range_of(plan, workspace, plan.buffers[workspace.buffer].bytes));
}

}  // namespace

void find_waits(Plan& plan) {
  std::vector<Memory> memories(kMemoryKinds.size() + plan.buffers.size());
  // A lane's latest instruction stands for its earlier ones, since lanes keep their order. Whoever
  // waits for an instruction knows what its lane knew then.
  PerLane<VectorClock> clocks;  // after a lane's latest instruction so far
  for (VectorClock& clock : clocks) clock.fill(kNone);
  std::vector<VectorClock> done;  // by instruction, after it
  done.reserve(plan.instructions.size());
  Accesses accesses;
  std::vector<int> earlier;

  for (int i = 0; i < std::ssize(plan.instructions); ++i) {
    Instruction& instruction = plan.instructions[i];
    find_accesses(plan, instruction, accesses);
    const auto& [reads, writes] = accesses;
    earlier.clear();
    for (const Range& r : reads) memories[r.memory].collect(r.begin, r.end, false, earlier);
    for (const Range& r : writes) memories[r.memory].collect(r.begin, r.end, true, earlier);
    // The latest first: what they wait for needs no wait of its own.
    std::sort(earlier.rbegin(), earlier.rend());
    VectorClock& clock = clocks[instruction.lane];
    for (int other : earlier) {
      if (other <= clock[plan.instructions[other].lane]) continue;
      std::ranges::transform(clock, done[other], clock.begin(), std::ranges::max);
      instruction.waits.push_back(other);
      plan.instructions[other].awaited = true;
    }
    clock[instruction.lane] = i;
    done.push_back(clock);
    for (const Range& r : reads) memories[r.memory].note_read(r.begin, r.end, i, instruction.lane);
    for (const Range& r : writes) memories[r.memory].note_write(r.begin, r.end, i);
  }
}

}  // namespace longshore::offload
