// The part of a training plan that updates parameters: buckets by their optimizers, a chunk at a
// time.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "longshore/models/ops/update/update.h"
#include "longshore/offload/lowering/pass_operands.h"

namespace longshore::trainer {

// By which norm of all gradients a step's are clipped.
enum class ClippingNorm : uint8_t {
  global_norm,           // the step's own, which updates have to wait for
  previous_global_norm,  // that of the step before, so that no update waits
};

struct OptimizerOptions {
  // Bucket::optimizer says which updates a bucket. weight_decay applies to the decayed parts of
  // buckets.
  std::vector<models::Optimizer> optimizers;
  double clipping_threshold = 0;  // 0: no clipping
  ClippingNorm clipping_norm = ClippingNorm::global_norm;
  uint64_t seed = 0;  // of stochastic rounding
  // Which lane updates: with host_compute, states stay where they are and weights come back.
  offload::Lane lane = offload::Lane::compute;
  // The most elements that are updated at a time: they bound what is staged of states in host
  // memory, and the scratch of kernels. A multiple of offload::kScaleBlock.
  int64_t chunk = int64_t{16} << 20;

  // The memory kind that `lane` works in.
  offload::MemoryKind kind() const;

  bool waits_for_norm() const {
    return clipping_threshold > 0 && clipping_norm == ClippingNorm::global_norm;
  }
};

// What an optimizer keeps, stored in that format, as a layout says it.
std::vector<offload::State> states_of(const models::Optimizer& optimizer,
                                      models::StateFormat format);

// Scalars the host gives each step.
inline constexpr const char* kLearningRate = "learning_rate";
// That of an optimizer, by its place, which may have a rate of its own.
std::string learning_rate_scalar(const models::Optimizer& rule, size_t optimizer);
// That of a rule, by its place in UpdateRule::scalars, for optimizer number `optimizer`.
std::string rule_scalar(const models::Optimizer& rule, size_t optimizer, size_t scalar);
inline constexpr const char* kStep = "step";  // int32, from 1, for stochastic rounding
// The factor of gradients where no update waits for their norm: 1, or what clips by the norm of the
// step before.
inline constexpr const char* kGivenClipFactor = "given_clip_factor";

class Update {
 public:
  // `clip` is the factor of all gradients, in the memory that the lane works in.
  Update(const OptimizerOptions& options, offload::PassOperands& operands,
         offload::PlanBuilder& builder, const offload::Operand& clip);

  // Queues a bucket; says how many chunks it has.
  int add(int bucket);
  // Appends the update of the next `chunks` chunks. What the host brings for a chunk is on its way
  // while the one before is updated.
  void run(int chunks);
  // After the update of a bucket of which replicas update a part each: appends the gathering of its
  // weights. Devices that share an axis must be told in the same order. A bucket that this one
  // updates whole needs nothing.
  void gather(int bucket);
  // Runs all that are queued.
  void finish() { run(static_cast<int>(queue_.size()) + (fetched_ ? 1 : 0)); }

 private:
  // Part of a bucket that is updated at a time: a range, or a matrix in its shape.
  struct Part {
    int bucket = 0;
    offload::DecayRange range;
    models::Shape shape;
  };
  struct Chunk {
    Part part;
    offload::Scope scope;
    offload::Operand gradient, compute;  // where the lane finds them
  };

  void add_ranges(int bucket);
  void add_matrices(int bucket);
  Chunk fetch_next();
  void update(const Chunk& chunk);
  bool is_away(const offload::Bucket& bucket, offload::Copy copy) const;
  offload::Operand reach(const Chunk& chunk, offload::Copy copy);
  offload::Operand reach_state(const Chunk& chunk, const char* name);

  const OptimizerOptions& options_;
  const offload::ParameterLayout& layout_;
  offload::PassOperands& operands_;
  offload::PlanBuilder& builder_;
  offload::Operand clip_;
  std::deque<Part> queue_;
  std::optional<Chunk> fetched_;
  offload::Operand sent_;  // the latest weights on their way to the device
  int chunks_ = 0;
};

}  // namespace longshore::trainer
