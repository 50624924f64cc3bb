// Times ops on a GPU one by one, for benchmarks of kernels.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "longshore/models/ir/program.h"
#include "longshore/offload/backends/backend.h"
#include "longshore/offload/execution/arenas.h"

namespace longshore::bench {

inline constexpr int kRounds = 15;

// What an input holds at first: its bytes, or fewer, which then come again and again.
using Contents = std::function<std::vector<std::byte>(const models::Type&)>;

// A node's operands on the GPU, each in memory of its own.
class Operands {
 public:
  Operands(offload::Backend& backend, const models::Program& program, const models::Node& node,
           const Contents& contents);

  // By the node's op, or by one that takes the same.
  void run(offload::Backend& backend, const models::Op& op, std::span<std::byte> workspace) const;

 private:
  models::Ref place(offload::Backend& backend, const models::Type& type, const Contents* contents);

  const models::Node& node_;
  std::vector<std::unique_ptr<offload::Arena>> memory_;
  std::vector<models::Ref> in_, out_;
};

// Behind a copy that keeps the GPU busy until the work is enqueued, and puts others' numbers into
// its caches.
class Stopwatch {
 public:
  explicit Stopwatch(offload::Backend& backend)
      : backend_(backend), memory_(backend, offload::MemoryKind::device, 2 * kLead.bytes()) {}

  offload::Backend& backend() const { return backend_; }

  // Of everything that `work` puts on the compute lane.
  double seconds_of(const std::function<void()>& work);
  // The median, after one that loads what libraries need.
  double median_seconds_of(const std::function<void()>& work, int rounds = kRounds);

 private:
  inline static const models::Type kLead{{int64_t{256} << 20}, models::Dtype::uint8};
  offload::Backend& backend_;
  offload::Arena memory_;
};

// FLOPs a second of a product of two square matrices in bfloat16.
double product_rate(Stopwatch& stopwatch, int64_t size, const Contents& contents,
                    int rounds = kRounds);

}  // namespace longshore::bench
