#include "tests/offload/watching_backend.h"

#include <algorithm>
#include <cstring>

#include "longshore/offload/backends/cpu_backend.h"

namespace longshore::offload {
namespace {

constexpr std::byte kFill{0xff};

bool overlap(const models::Ref& a, const models::Ref& b) {
  auto *a_begin = a.as<std::byte>(), *b_begin = b.as<std::byte>();
  return a_begin < b_begin + b.type.bytes() && b_begin < a_begin + a.type.bytes();
}

}  // namespace

WatchingBackend::WatchingBackend() : ForwardingBackend(make_cpu_backend()) {}

std::byte* WatchingBackend::allocate(MemoryKind kind, int64_t bytes) {
  std::byte* memory = ForwardingBackend::allocate(kind, bytes);
  memory_[memory].resize(static_cast<size_t>(bytes));
  return memory;
}

void WatchingBackend::free(MemoryKind kind, std::byte* memory) {
  memory_.erase(memory);
  ForwardingBackend::free(kind, memory);
}

void WatchingBackend::remember() {
  for (auto& [memory, held] : memory_) std::copy_n(memory, held.size(), held.begin());
}

void WatchingBackend::expect_unchanged_outside(std::vector<Range> written, const std::string& who) {
  std::sort(written.begin(), written.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (const auto& [memory, held] : memory_) {
    std::byte *at = memory, *end = memory + held.size();
    auto compare_until = [&, &memory = memory, &held = held](std::byte* until) {
      if (at < until && std::memcmp(at, held.data() + (at - memory), until - at) != 0)
        faults_.push_back(who + " writes where nothing of its own is");
    };
    for (const Range& range : written) {
      if (range.end <= at || range.begin >= end) continue;
      compare_until(range.begin);
      at = range.end;
    }
    compare_until(end);
  }
}

void WatchingBackend::run(Lane lane, const models::Op& op, const models::KernelCall& call) {
  synchronize();
  std::vector<Range> written;
  for (const models::Ref& out : call.out) {
    written.push_back({out.as<std::byte>(), out.as<std::byte>() + out.type.bytes()});
    if (std::none_of(call.in.begin(), call.in.end(),
                     [&](const models::Ref& in) { return overlap(in, out); }))
      std::fill(written.back().begin, written.back().end, kFill);
  }
  std::fill(call.workspace.begin(), call.workspace.end(), kFill);
  if (!call.workspace.empty())
    written.push_back({call.workspace.data(), call.workspace.data() + call.workspace.size()});

  remember();
  ForwardingBackend::run(lane, op, call);
  synchronize();
  expect_unchanged_outside(written, op.name);
  if (!call.workspace.empty()) {
    auto last = std::find_if(call.workspace.rbegin(), call.workspace.rend(),
                             [](std::byte b) { return b != kFill; });
    workspaces_[op.name].push_back({static_cast<int64_t>(call.workspace.size()),
                                    static_cast<int64_t>(call.workspace.rend() - last)});
  }
}

void WatchingBackend::copy(Lane lane, const models::Ref& from, const models::Ref& to) {
  synchronize();
  remember();
  ForwardingBackend::copy(lane, from, to);
  synchronize();
  expect_unchanged_outside({{to.as<std::byte>(), to.as<std::byte>() + to.type.bytes()}},
                           std::string("a copy on ") + name(lane));
}

}  // namespace longshore::offload
