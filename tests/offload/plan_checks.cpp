#include "tests/offload/plan_checks.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "longshore/offload/memory/alignment.h"
#include "longshore/offload/plan/mesh.h"

namespace longshore::offload {
namespace {

// Bytes that are the same place: `space` is an arena or an argument.
struct Range {
  int space = 0;
  int64_t begin = 0, end = 0;

  bool overlaps(const Range& o) const { return space == o.space && begin < o.end && o.begin < end; }
  bool operator==(const Range&) const = default;
};

Range range_of(const Plan& plan, int buffer, int64_t offset, int64_t bytes) {
  const Buffer& b = plan.buffers[buffer];
  if (b.owner == Owner::caller)
    return {buffer + static_cast<int>(kMemoryKinds.size()), offset, offset + bytes};
  return {static_cast<int>(b.kind), b.offset + offset, b.offset + offset + bytes};
}

Range range_of(const Plan& plan, const Operand& operand) {
  return range_of(plan, operand.buffer, operand.offset, operand.type.bytes());
}

Range workspace_of(const Plan& plan, const Instruction& instruction) {
  int buffer = instruction.workspace.buffer;
  return range_of(plan, buffer, 0, plan.buffers[buffer].bytes);
}

// Which buffer wrote each byte last.
class Writers {
 public:
  void write(const Range& range, int buffer) {
    cut(range.space, range.begin);
    cut(range.space, range.end);
    auto& pieces = spaces_[range.space];
    pieces.erase(pieces.lower_bound(range.begin), pieces.lower_bound(range.end));
    pieces[range.begin] = {range.end, buffer};
  }

  bool all_by(const Range& range, int buffer) const {
    auto space = spaces_.find(range.space);
    if (space == spaces_.end()) return range.begin == range.end;
    const auto& pieces = space->second;
    auto piece = pieces.upper_bound(range.begin);
    if (piece == pieces.begin()) return false;
    --piece;
    for (int64_t at = range.begin; at < range.end; ++piece) {
      if (piece == pieces.end() || piece->first > at || piece->second.end <= at ||
          piece->second.buffer != buffer)
        return false;
      at = piece->second.end;
    }
    return true;
  }

 private:
  struct Piece {
    int64_t end;
    int buffer;
  };

  void cut(int space, int64_t at) {
    auto& pieces = spaces_[space];
    auto piece = pieces.lower_bound(at);
    if (piece == pieces.begin()) return;
    --piece;
    if (piece->second.end <= at) return;
    pieces[at] = piece->second;
    piece->second.end = at;
  }

  std::map<int, std::map<int64_t, Piece>> spaces_;
};

bool holds_something(const Buffer& buffer, Gradients gradients) {
  if (buffer.is_persistent) return true;
  if (buffer.owner != Owner::caller) return false;
  return buffer.kind == MemoryKind::pinned_host || buffer.category == Category::parameters ||
         buffer.category == Category::optimizer || gradients == Gradients::begun;
}

std::string where(const Plan& plan, size_t i) {
  return plan.name + ", instruction " + std::to_string(i) + " (" + plan.instructions[i].name + ")";
}

bool may_share(const Instruction& instruction, int out, int in) {
  if (!instruction.op) return false;
  auto allowed =
      instruction.op->in_place(instruction.attrs, static_cast<int>(instruction.in.size()));
  return std::any_of(allowed.begin(), allowed.end(),
                     [&](models::Reuse reuse) { return reuse.out == out && reuse.in == in; });
}

// What is gathered may be a part of the result, where that part belongs.
bool gathers_in_place(const Instruction& instruction, const Range& written, const Range& read) {
  return instruction.op == &models::all_gather_op && written.begin <= read.begin &&
         read.end <= written.end && (read.begin - written.begin) % (read.end - read.begin) == 0;
}

struct Access {
  Range range;
  int buffer;
  bool writes;
};

std::vector<Access> accesses(const Plan& plan, const Instruction& instruction) {
  std::vector<Access> all;
  for (const Operand& operand : instruction.in)
    all.push_back({range_of(plan, operand), operand.buffer, false});
  for (const Operand& operand : instruction.out)
    all.push_back({range_of(plan, operand), operand.buffer, true});
  if (instruction.workspace)
    all.push_back({workspace_of(plan, instruction), instruction.workspace.buffer, true});
  return all;
}

// Whether what an instruction reads is there. Buckets of gradients are also read whole, with the
// gaps between parameters, which nobody ever writes.
bool is_there(const Plan& plan, size_t reader, const Operand& in, const Writers& writers) {
  const Range read = range_of(plan, in);
  if (writers.all_by(read, in.buffer)) return true;
  if (plan.buffers[in.buffer].category != Category::gradients) return false;
  bool is_written = false;
  for (size_t i = 0; i < reader; ++i)
    for (const Operand& out : plan.instructions[i].out) {
      Range part = range_of(plan, out);
      if (out.buffer != in.buffer || !part.overlaps(read)) continue;
      part = {part.space, std::max(part.begin, read.begin), std::min(part.end, read.end)};
      if (!writers.all_by(part, in.buffer)) return false;
      is_written = true;
    }
  return is_written;
}

}  // namespace

std::vector<std::string> data_flow_faults(const Plan& plan, Gradients gradients) {
  std::vector<std::string> faults;
  Writers writers;
  for (size_t b = 0; b < plan.buffers.size(); ++b)
    if (holds_something(plan.buffers[b], gradients))
      writers.write(range_of(plan, static_cast<int>(b), 0, plan.buffers[b].bytes),
                    static_cast<int>(b));

  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& instruction = plan.instructions[i];
    for (const Operand& in : instruction.in)
      if (!is_there(plan, i, in, writers))
        faults.push_back(where(plan, i) + " reads " + plan.buffers[in.buffer].name +
                         ", which is not there");

    std::vector<Range> written;
    for (const Operand& out : instruction.out) written.push_back(range_of(plan, out));
    for (size_t o = 0; o < written.size(); ++o)
      for (size_t in = 0; in < instruction.in.size(); ++in) {
        Range read = range_of(plan, instruction.in[in]);
        if (!written[o].overlaps(read)) continue;
        const bool is_in_place =
            written[o] == read && may_share(instruction, static_cast<int>(o), static_cast<int>(in));
        if (!is_in_place && !gathers_in_place(instruction, written[o], read))
          faults.push_back(where(plan, i) + " writes output " + std::to_string(o) +
                           " over its input " + std::to_string(in));
      }
    if (instruction.workspace) {
      written.push_back(workspace_of(plan, instruction));
      for (const Operand& in : instruction.in)
        if (written.back().overlaps(range_of(plan, in)))
          faults.push_back(where(plan, i) + " has its workspace over an input");
    }
    for (size_t a = 0; a < written.size(); ++a)
      for (size_t b = 0; b < a; ++b)
        if (written[a].overlaps(written[b]))
          faults.push_back(where(plan, i) + " writes the same bytes twice");

    for (const Access& access : accesses(plan, instruction))
      if (access.writes) writers.write(access.range, access.buffer);
  }
  // The next run finds what this one leaves it, unless nothing is left.
  for (const Instruction& instruction : plan.instructions)
    for (const Operand& in : instruction.in) {
      const Buffer& buffer = plan.buffers[in.buffer];
      bool is_left = buffer.is_persistent && buffer.first < std::ssize(plan.instructions);
      if (is_left && !is_there(plan, plan.instructions.size(), in, writers))
        faults.push_back(plan.name + " does not leave " + buffer.name);
    }
  return faults;
}

std::vector<std::string> order_faults(const Plan& plan) {
  std::vector<std::string> faults;
  size_t count = plan.instructions.size();
  // done_before[i][j]: j is done when i starts.
  std::vector<std::vector<bool>> done_before(count, std::vector<bool>(count));
  std::map<Lane, size_t> latest;
  std::vector<std::vector<Access>> touched(count);
  for (size_t i = 0; i < count; ++i) {
    const Instruction& instruction = plan.instructions[i];
    auto follows = [&](size_t j) {
      done_before[i][j] = true;
      for (size_t k = 0; k < j; ++k)
        if (done_before[j][k]) done_before[i][k] = true;
    };
    if (auto found = latest.find(instruction.lane); found != latest.end()) follows(found->second);
    latest[instruction.lane] = i;
    for (int wait : instruction.waits) {
      if (wait < 0 || wait >= static_cast<int>(i) || !plan.instructions[wait].awaited) {
        faults.push_back(where(plan, i) + " waits for " + std::to_string(wait) +
                         ", which is never recorded before");
        continue;
      }
      follows(static_cast<size_t>(wait));
    }

    touched[i] = accesses(plan, instruction);
    for (size_t j = 0; j < i; ++j) {
      if (done_before[i][j]) continue;
      for (const Access& now : touched[i])
        for (const Access& before : touched[j])
          if ((now.writes || before.writes) && now.range.overlaps(before.range))
            faults.push_back(where(plan, i) + " touches " + plan.buffers[now.buffer].name +
                             " without waiting for instruction " + std::to_string(j) + " (" +
                             plan.instructions[j].name + ")");
    }
  }
  return faults;
}

std::vector<std::string> placement_faults(const Plan& plan) {
  std::vector<std::string> faults;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.owner != Owner::plan) continue;
    if (buffer.offset % kArenaAlignment != 0)
      faults.push_back(plan.name + ": " + buffer.name + " is not aligned");
    if (buffer.offset < 0 || buffer.offset + buffer.bytes > plan.arena_bytes[buffer.kind])
      faults.push_back(plan.name + ": " + buffer.name + " lies outside of the arena");
  }
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    for (const Access& access : accesses(plan, plan.instructions[i])) {
      const Buffer& buffer = plan.buffers[access.buffer];
      Range whole = range_of(plan, access.buffer, 0, buffer.bytes);
      if (access.range.begin < whole.begin || access.range.end > whole.end)
        faults.push_back(where(plan, i) + " reaches out of " + buffer.name);
      int now = static_cast<int>(i);
      // Where an output takes an input's place, the input's life ends an instruction earlier.
      bool begun = now >= buffer.first, ended = now > buffer.last + (access.writes ? 0 : 1);
      bool is_live = buffer.is_persistent ? begun || !ended : begun && !ended;
      if (buffer.owner == Owner::plan && !is_live)
        faults.push_back(where(plan, i) + " uses " + buffer.name + " outside of its lifetime");
    }
  return faults;
}

int64_t live_bytes(const Plan& plan, MemoryKind kind) {
  struct Life {
    int first = -1, last = -1;
    bool at(int now) const { return first >= 0 && first <= now && now <= last; }
  };
  std::vector<Life> lives(plan.buffers.size());
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    for (const Access& access : accesses(plan, plan.instructions[i])) {
      Life& life = lives[access.buffer];
      if (life.first < 0) life.first = static_cast<int>(i);
      life.last = static_cast<int>(i);
    }
  for (size_t b = 0; b < plan.buffers.size(); ++b)
    lives[b].last = std::max(lives[b].last, plan.buffers[b].last);
  auto is_live = [&](size_t b, int now) {
    const Buffer& buffer = plan.buffers[b];
    if (!buffer.is_persistent) return lives[b].at(now);
    return lives[b].first >= 0 && (now >= buffer.first || now <= buffer.last);
  };
  int64_t most = 0;
  for (size_t i = 0; i <= plan.instructions.size(); ++i) {
    // Each place counts once, also when it changes hands in place at this instruction.
    std::map<int64_t, int64_t> places;
    int64_t now = 0;
    for (size_t b = 0; b < plan.buffers.size(); ++b) {
      const Buffer& buffer = plan.buffers[b];
      if (buffer.kind != kind) continue;
      if (buffer.owner == Owner::caller) {
        now += align_up(buffer.bytes);
      } else if (is_live(b, static_cast<int>(i))) {
        int64_t& place = places[buffer.offset];
        place = std::max(place, align_up(buffer.bytes));
      }
    }
    for (const auto& [offset, bytes] : places) now += bytes;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace longshore::offload
