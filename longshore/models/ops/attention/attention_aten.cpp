// Attention through ATen: flash attention on CUDA, and a composition that makes the scores of one
// head at a time, for everything else.
//
// R rows (queries) and S keys of one block of scores.
#include <ATen/Context.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "longshore/base/pieces.h"
#include "longshore/base/round_up.h"
#include "longshore/models/ops/attention/attention_kernels.h"
#include "longshore/models/ops/attention/attention_sinks.h"
#include "longshore/models/ops/kernels/aten.h"

namespace longshore::models {
namespace {

const AttentionAttrs& attrs_of(const std::any& attrs) {
  return std::any_cast<const AttentionAttrs&>(attrs);
}

// --- which path serves which case

enum class Path {
  flash,  // at::_flash_attention_forward
  whole,  // composition with all scores of a head at once
  tiled,  // composition with the scores of kBlockRows queries at once
};

constexpr int64_t kBlockRows = 512;

struct Case {
  Target target;
  Dtype dtype;
  const AttentionAttrs& attrs;

  bool floating() const {
    return dtype == Dtype::float64 || dtype == Dtype::float32 || dtype == Dtype::bfloat16;
  }
};

// The first that serves.
constexpr struct {
  Path path;
  bool (*serves)(const Case& c);
} kPaths[]{
    {Path::flash,
     [](const Case& c) { return is_cuda(c.target) && flash_serves(c.attrs, c.dtype); }},
    {Path::whole,
     [](const Case& c) {
       return c.floating() && !is_cuda(c.target) && c.attrs.is_plain() &&
              c.attrs.options.window == 0;
     }},
    {Path::tiled, [](const Case& c) { return c.floating(); }},
};

Path path_of(const Case& c) {
  for (const auto& row : kPaths)
    if (row.serves(c)) return row.path;
  refuse_attention(c.attrs, c.dtype);
}

// --- blocks of scores

// Rows and keys of the matrix of scores, as [first, first + count) each.
struct ScoreBlock {
  int64_t row, rows, key, keys;
};

template <class F>
void each_block(Path path, const AttentionOptions& options, int64_t t, F f) {
  int64_t step = path == Path::whole ? t : kBlockRows;
  const int64_t window = options.window;
  for_each_piece(t, step, [&](int64_t row, int64_t rows) {
    if (options.mask != AttentionMask::causal) return f(ScoreBlock{row, rows, 0, t});
    int64_t key = window == 0 ? 0 : std::max<int64_t>(row - window + 1, 0);
    f(ScoreBlock{row, rows, key, row + rows - key});
  });
}

// Bytes of `count` numbers as the workspace holds them.
int64_t held(int64_t count, int64_t size) { return allocated_bytes(count * size); }

// What reductions and libraries take for themselves.
constexpr int64_t kSlack = 1 << 20;

int64_t mask_bytes(const ScoreBlock& block) {
  return held(block.rows * block.keys, size_bytes(Dtype::uint8));
}

// The bytes of the mask's int64 positions: rows, keys, and rows less the window.
int64_t position_bytes(const ScoreBlock& block) {
  return 2 * held(block.rows, 8) + held(block.keys, 8);
}

// The bytes of one head's operands in the compute type.
struct HeadBytes {
  int64_t scores, rows, keys;  // [R,S], [R,D], [S,D]
  int64_t row_sums;            // [R]
  bool converted;              // from a narrower type

  HeadBytes(const ScoreBlock& block, Dtype dtype, int64_t d) {
    int64_t size = std::max(size_bytes(dtype), size_bytes(Dtype::float32));
    scores = held(block.rows * block.keys, size);
    rows = held(block.rows * d, size);
    keys = held(block.keys * d, size);
    row_sums = held(block.rows, size);
    converted = dtype == Dtype::bfloat16;
  }
};

// --- composition

// [B,T,H*D] as [B,T,H,D].
at::Tensor heads(const KernelCall& call, const Ref& ref) {
  const Shape& shape = ref.type.shape;
  int64_t d = attrs_of(call.attrs).options.head_dim;
  return tensor(call, ref).view({shape[0], shape[1], shape[2] / d, d});
}

// Which keys the block's queries in row b of the batch do not see: bool [R,S].
at::Tensor hidden_keys(const KernelCall& call, const ScoreBlock& block, int64_t b) {
  const AttentionOptions& options = attrs_of(call.attrs).options;
  const AttentionIds ids = ids_of(call);
  auto indices = tensor(call, call.in[0]).options().dtype(at::kLong);
  at::Tensor i = at::arange(block.row, block.row + block.rows, indices).unsqueeze(1);
  at::Tensor j = at::arange(block.key, block.key + block.keys, indices).unsqueeze(0);
  at::Tensor hidden = j > i;
  if (options.mask == AttentionMask::full) hidden.zero_();
  if (options.window != 0) hidden.logical_or_(j <= i - options.window);
  auto of_queries = [&](const Ref* all) {
    return tensor(call, *all)[b].narrow(0, block.row, block.rows).unsqueeze(1);
  };
  auto of_keys = [&](const Ref* all) {
    return tensor(call, *all)[b].narrow(0, block.key, block.keys).unsqueeze(0);
  };
  if (ids.blocks) {
    const at::Tensor own = of_queries(ids.blocks);
    hidden.logical_and_((own != of_keys(ids.blocks)).logical_or_(own == 0));
  }
  if (ids.segments) hidden.logical_or_(of_queries(ids.segments) != of_keys(ids.segments));
  return hidden;
}

// Scores of one head, [R,S], hidden ones -infinite; and, where they are capped, their derivatives
// by what they were before.
struct Scores {
  at::Tensor values, slopes;
};

enum class Slopes { none, of_cap };

Scores make_scores(const at::Tensor& q, const at::Tensor& k, const at::Tensor& hidden,
                   const AttentionOptions& options, Slopes slopes) {
  Scores scores{at::mm(q, k.t()).mul_(options.score_scale()), {}};
  if (options.soft_cap != 0) {
    scores.values.div_(options.soft_cap).tanh_();
    if (slopes == Slopes::of_cap) scores.slopes = scores.values.square().neg_().add_(1);
    scores.values.mul_(options.soft_cap);
  }
  scores.values.masked_fill_(hidden, -INFINITY);
  return scores;
}

// f(block, b, h, g, hidden) for every block of scores of every head.
template <class F>
void each_block_of_heads(const KernelCall& call, const Ref& q, const Ref& k, F f) {
  const AttentionAttrs& attrs = attrs_of(call.attrs);
  int64_t d = attrs.options.head_dim, h = q.type.shape[2] / d, g = k.type.shape[2] / d;
  Path path = path_of({call.target, q.type.dtype, attrs});
  for (int64_t batch = 0; batch < q.type.shape[0]; ++batch)
    each_block(path, attrs.options, q.type.shape[1], [&](const ScoreBlock& block) {
      at::Tensor hidden = hidden_keys(call, block, batch);
      for (int64_t head = 0; head < h; ++head) f(block, batch, head, head / (h / g), hidden);
    });
}

}  // namespace

void attention_composed(const KernelCall& call) {
  auto wide = compute_type(call.in[0]);
  const AttentionOptions& options = attrs_of(call.attrs).options;
  at::Tensor q = heads(call, call.in[0]), k = heads(call, call.in[1]), v = heads(call, call.in[2]);
  at::Tensor context = heads(call, call.out[0]), log_sum_exp = tensor(call, call.out[1]), sinks;
  if (const Ref* given = sinks_of(call)) sinks = tensor(call, *given).to(wide);
  each_block_of_heads(
      call, call.in[0], call.in[1],
      [&](const ScoreBlock& block, int64_t b, int64_t h, int64_t g, const at::Tensor& hidden) {
        auto rows = [&](const at::Tensor& t) { return t[b].narrow(0, block.row, block.rows); };
        auto keys = [&](const at::Tensor& t) {
          return t[b].narrow(0, block.key, block.keys).select(1, g).to(wide);
        };
        at::Tensor q_h = rows(q).select(1, h).to(wide), k_g = keys(k);
        at::Tensor scores = make_scores(q_h, k_g, hidden, options, Slopes::none).values;
        at::Tensor lse = at::logsumexp(scores, {-1});
        if (sinks.defined()) at::logaddexp_out(lse, lse, sinks[h]);
        scores.sub_(lse.unsqueeze(-1)).exp_();
        rows(context).select(1, h).copy_(at::mm(scores, keys(v)));
        log_sum_exp[b][h].narrow(0, block.row, block.rows).copy_(lse);
      });
}

void attention_grad_composed(const KernelCall& call) {
  auto wide = compute_type(call.in[1]);
  const AttentionOptions& options = attrs_of(call.attrs).options;
  at::Tensor dout = heads(call, call.in[0]), q = heads(call, call.in[1]);
  at::Tensor k = heads(call, call.in[2]), v = heads(call, call.in[3]);
  at::Tensor out = heads(call, call.in[4]), log_sum_exp = tensor(call, call.in[5]);
  at::Tensor dq = heads(call, call.out[0]);
  at::Tensor dk = at::zeros_like(k, k.options().dtype(wide)), dv = at::zeros_like(dk);
  each_block_of_heads(
      call, call.in[1], call.in[2],
      [&](const ScoreBlock& block, int64_t b, int64_t h, int64_t g, const at::Tensor& hidden) {
        auto rows = [&](const at::Tensor& t) {
          return t[b].narrow(0, block.row, block.rows).select(1, h);
        };
        auto keys = [&](const at::Tensor& t) {
          return t[b].narrow(0, block.key, block.keys).select(1, g);
        };
        at::Tensor dout_h = rows(dout).to(wide), q_h = rows(q).to(wide);
        at::Tensor k_g = keys(k).to(wide), v_g = keys(v).to(wide);
        auto [p, slopes] = make_scores(q_h, k_g, hidden, options, Slopes::of_cap);
        p.sub_(log_sum_exp[b][h].narrow(0, block.row, block.rows).to(wide).unsqueeze(-1)).exp_();
        at::Tensor delta = (dout_h * rows(out).to(wide)).sum(-1, true);
        keys(dv).add_(at::mm(p.t(), dout_h));
        at::Tensor ds = at::mm(dout_h, v_g.t());
        ds.sub_(delta).mul_(p).mul_(options.score_scale());
        if (slopes.defined()) ds.mul_(slopes);
        rows(dq).copy_(at::mm(ds, k_g));
        keys(dk).add_(at::mm(ds.t(), q_h));
      });
  heads(call, call.out[1]).copy_(dk);
  heads(call, call.out[2]).copy_(dv);
}

namespace {

// The most that a block holds at once; f(head) is what one head holds in addition to the mask. A
// value that is freed before those made after it counts as if it stayed: workspaces are stacks.
template <class F>
int64_t most_bytes(Target target, const std::any& any, const Type& q, F f) {
  const AttentionAttrs& attrs = attrs_of(any);
  int64_t most = 0;
  each_block(path_of({target, q.dtype, attrs}), attrs.options, q.shape[1],
             [&](const ScoreBlock& block) {
               HeadBytes head(block, q.dtype, attrs.options.head_dim);
               int64_t mask = mask_bytes(block);
               most = std::max(most, position_bytes(block) + mask + std::max(mask, f(head)));
             });
  return most + kSlack;
}

int64_t composed_bytes(Target target, const std::any& any, std::span<const Type> in) {
  const int64_t sinks = attrs_of(any).sinks ? widened_bytes(in[3]) : 0;
  return sinks + most_bytes(target, any, in[0], [&](const HeadBytes& head) {
           int64_t converted = head.converted ? head.rows + head.keys : 0;  // q, k
           int64_t exponentials = head.scores + 4 * head.row_sums;          // of at::logsumexp
           int64_t product = (head.converted ? head.keys : 0) + head.rows;  // with v
           return converted + head.scores + head.row_sums + std::max(exponentials, product);
         });
}

int64_t grad_composed_bytes(Target target, const std::any& any, std::span<const Type> in) {
  int64_t size = std::max(size_bytes(in[1].dtype), size_bytes(Dtype::float32));
  bool capped = attrs_of(any).options.soft_cap != 0;
  return 2 * held(in[2].shape.count(), size) +  // dk, dv
         most_bytes(target, any, in[1], [&](const HeadBytes& head) {
           int64_t converted = head.converted ? 2 * (head.rows + head.keys) : 0;  // dout, q, k, v
           int64_t kept = converted + (capped ? 2 : 1) * head.scores + head.row_sums;
           int64_t delta = (head.converted ? 2 : 1) * head.rows;
           int64_t products = head.scores + std::max(head.rows, head.keys);  // ds, dq or dk
           return kept + std::max({delta, head.keys, products});
         });
}

}  // namespace

int64_t attention_composed_workspace(const std::any& attrs, std::span<const Type> in,
                                     std::span<const Type>) {
  return composed_bytes(Target::reference, attrs, in);
}

int64_t attention_grad_composed_workspace(const std::any& attrs, std::span<const Type> in,
                                          std::span<const Type>) {
  return grad_composed_bytes(Target::reference, attrs, in);
}

#ifdef LONGSHORE_CUDA

// While it lives, flash attention adds the parts of dq in a fixed order. Other ops of ATen that run
// meanwhile might refuse to.
class FixedOrder {
 public:
  FixedOrder() {
    at::globalContext().setDeterministicAlgorithms(true, false);
    at::globalContext().setDeterministicFillUninitializedMemory(false);
  }
  ~FixedOrder() {
    at::globalContext().setDeterministicAlgorithms(algorithms_, warn_only_);
    at::globalContext().setDeterministicFillUninitializedMemory(fill_);
  }
  FixedOrder(const FixedOrder&) = delete;
  FixedOrder& operator=(const FixedOrder&) = delete;

 private:
  const bool algorithms_ = at::globalContext().deterministicAlgorithms();
  const bool warn_only_ = at::globalContext().deterministicAlgorithmsWarnOnly();
  const bool fill_ = at::globalContext().deterministicFillUninitializedMemory();
};

// Flash attention's name for a window: how many keys before its own a query sees.
std::optional<int64_t> keys_before(const AttentionOptions& options) {
  return options.window == 0 ? std::nullopt : std::optional(options.window - 1);
}

void attention_flash(const KernelCall& call) {
  const AttentionAttrs& attrs = attrs_of(call.attrs);
  const Shape& shape = call.in[0].type.shape;
  auto result = at::_flash_attention_forward(
      heads(call, call.in[0]), heads(call, call.in[1]), heads(call, call.in[2]), {}, {}, shape[1],
      shape[1], 0.0, attrs.options.mask == AttentionMask::causal, false,
      attrs.options.score_scale(), keys_before(attrs.options));
  heads(call, call.out[0]).copy_(std::get<0>(result));
  tensor(call, call.out[1]).copy_(std::get<1>(result));
}

void attention_cuda_aten(const KernelCall& call) {
  const AttentionAttrs& attrs = attrs_of(call.attrs);
  if (path_of({call.target, call.in[0].type.dtype, attrs}) != Path::flash)
    return attention_composed(call);
  attention_flash(call);
  if (attrs.sinks) add_sinks_composed(call);
}

void attention_grad_cuda_aten(const KernelCall& call) {
  const AttentionAttrs& attrs = attrs_of(call.attrs);
  if (path_of({call.target, call.in[1].type.dtype, attrs}) != Path::flash)
    return attention_grad_composed(call);
  const Shape& shape = call.in[1].type.shape;
  at::Tensor q = heads(call, call.in[1]);
  // Without dropout the generator's state is not read.
  at::Tensor state = at::empty({2}, q.options().dtype(at::kUInt64));
  at::Tensor unused = at::empty({}, q.options().dtype(at::kUInt64));
  std::optional<FixedOrder> fixed_order;
  if (attrs.options.deterministic) fixed_order.emplace();
  auto result = at::_flash_attention_backward(
      heads(call, call.in[0]), q, heads(call, call.in[2]), heads(call, call.in[3]),
      heads(call, call.in[4]), tensor(call, call.in[5]), {}, {}, shape[1], shape[1], 0.0,
      attrs.options.mask == AttentionMask::causal, state, unused, attrs.options.score_scale(),
      keys_before(attrs.options));
  heads(call, call.out[0]).copy_(std::get<0>(result));
  heads(call, call.out[1]).copy_(std::get<1>(result));
  heads(call, call.out[2]).copy_(std::get<2>(result));
}

#else

void attention_cuda_aten(const KernelCall&) { throw InternalError("built without CUDA"); }
void attention_grad_cuda_aten(const KernelCall&) { throw InternalError("built without CUDA"); }

#endif

namespace {

constexpr int64_t kMultiprocessors = 192;  // no GPU that this runs on has more

}  // namespace

std::string attention_cuda_aten_path(const std::any& any, std::span<const Type> in) {
  return path_of({Target::cuda, in[0].dtype, attrs_of(any)}) == Path::flash
             ? "flash attention (ATen)"
             : "tiles of ATen's matrix products";
}

// Flash attention allocates its results and, where heads and blocks of 64 queries are too few for a
// GPU's multiprocessors (0.8 of twice as many), results in float32 of parts of the keys: a tile of
// keys is the least part.
int64_t attention_cuda_aten_workspace(const std::any& any, std::span<const Type> in,
                                      std::span<const Type> out) {
  if (path_of({Target::cuda, in[0].dtype, attrs_of(any)}) != Path::flash)
    return composed_bytes(Target::cuda, any, in);
  const Shape& q = in[0].shape;
  const int64_t d = attrs_of(any).options.head_dim, heads = q[0] * (q[2] / d);
  const int64_t tile = d <= 64 ? 256 : d <= 128 ? 128 : 64;
  const bool is_split = heads * ceil_div(q[1], 64) < 2 * kMultiprocessors * 4 / 5;
  const int64_t parts = is_split ? std::min<int64_t>(128, ceil_div(q[1], tile)) : 0;
  const int64_t sums = parts * heads * q[1] * (round_up(d, 32) + 1) * size_bytes(Dtype::float32);
  const int64_t sinks = attrs_of(any).sinks ? allocated_bytes(out[1].bytes()) : 0;
  return 2 * (out[0].bytes() + out[1].bytes()) + sums + sinks + (1 << 20);
}

// Each of several groups of blocks sums dq in float32, as many as fill the GPU with all heads; dk
// and dv exist once for each query head before they are added up. Rows are whole blocks of 128.
int64_t attention_grad_cuda_aten_workspace(const std::any& any, std::span<const Type> in,
                                           std::span<const Type> out) {
  if (path_of({Target::cuda, in[1].dtype, attrs_of(any)}) != Path::flash)
    return grad_composed_bytes(Target::cuda, any, in);
  const Shape& q = in[1].shape;
  const int64_t d = attrs_of(any).options.head_dim, heads = q[0] * (q[2] / d);
  const int64_t rows = heads * round_up(q[1], 128), groups = ceil_div(kMultiprocessors, heads);
  const int64_t sums = (groups * round_up(d, 64) + 1) * rows * size_bytes(Dtype::float32);
  return 5 * out[0].bytes() + sums + (1 << 20);
}

}  // namespace longshore::models
