#include "longshore/models/ops/attention/attention_blocks.h"

#include <algorithm>
#include <vector>

#include "longshore/base/round_up.h"
#include "longshore/models/ops/kernels/vectors.h"

namespace longshore::models {
namespace {

// Queries of a block at most: rather few, for half the scores of its last queries' keys are hidden;
// but products over fewer leave multiprocessors idle.
constexpr int64_t kMaxQueries = 512;
// Blocks are cut to as few queries as take this, all scores of a block together; not to fewer than
// kFewestQueries.
constexpr int64_t kMaxBytes = int64_t{256} << 20;
constexpr int64_t kFewestQueries = 64;
// Pieces of the workspace begin at multiples of that.
constexpr int64_t kAlignment = 512;

struct Sizes {
  AttentionAttrs attrs;
  int64_t b, t, h, g, d;  // as in longshore/models/ops/attention/attention.h
  int64_t group;          // query heads of a key/value head
  Dtype dtype;

  Sizes(const AttentionAttrs& attrs, const Type& q, const Type& k)
      : attrs(attrs),
        b(q.shape[0]),
        t(q.shape[1]),
        h(q.shape[2] / attrs.options.head_dim),
        g(k.shape[2] / attrs.options.head_dim),
        d(attrs.options.head_dim),
        group(h / g),
        dtype(q.dtype) {
    if (dtype != Dtype::float32 && dtype != Dtype::bfloat16) refuse_attention(attrs, dtype);
  }

  bool is_rounded() const { return dtype != Dtype::float32; }

  // One number of each head's scores and what is made of them, in all heads.
  int64_t score_bytes(bool backward) const {
    const int64_t wide = size_bytes(Dtype::float32), narrow = is_rounded() ? size_bytes(dtype) : 0;
    return g * (backward ? 2 : 1) * (wide + narrow);
  }

  // From the row's end on.
  std::vector<AttentionBlock> blocks(bool backward) const {
    const bool is_causal = attrs.options.mask == AttentionMask::causal;
    const int64_t window = is_causal ? attrs.options.window : 0;
    const int64_t widest = window == 0 ? t : std::min(t, kMaxQueries + window);
    const int64_t affordable = kMaxBytes / (score_bytes(backward) * round_up(widest, kVector));
    const int64_t step =
        std::clamp(affordable / kFewestQueries * kFewestQueries, kFewestQueries, kMaxQueries);
    std::vector<AttentionBlock> blocks;
    for (int64_t query = (t - 1) / step * step; query >= 0; query -= step) {
      const int64_t queries = std::min(step, t - query);
      // Whole vectors, so that operands stay as aligned as they are.
      const int64_t key =
          window == 0 ? 0 : std::max<int64_t>(query - window + 1, 0) / kVector * kVector;
      const int64_t keys = (is_causal ? query + queries : t) - key;
      blocks.push_back({.heads = g,
                        .query = query,
                        .queries = queries,
                        .key = key,
                        .keys = keys,
                        .width = round_up(keys, kVector)});
    }
    return blocks;
  }

  static constexpr int64_t kVector = kVectorOf<bfloat16>;

  // --- products, of all key/value heads

  Stride queries() const { return {.row = h * d, .next = group * d}; }
  Stride keys() const { return {.row = g * d, .next = d}; }
  static Stride scores(const AttentionBlock& block) {
    return {.row = block.width, .next = block.queries * block.width};
  }

  // Products of queries with keys, or of the results' gradients with values: [R,S] for each head.
  Matmuls to_scores(const AttentionBlock& block) const {
    return {{.m = block.queries,
             .n = block.keys,
             .k = d,
             .ab = dtype,
             .c = Dtype::float32,
             .b_layout = Layout::transposed},
            g,
            queries(),
            keys(),
            scores(block)};
  }
  // Products of probabilities with values, or of the scores' gradients with keys: [R,D].
  Matmuls to_queries(const AttentionBlock& block) const {
    return {{.m = block.queries, .n = d, .k = block.keys, .ab = dtype, .c = dtype},
            g,
            scores(block),
            keys(),
            queries()};
  }
  // Products of probabilities with the results' gradients, or of the scores' gradients with
  // queries: [S,D], added up.
  Matmuls to_keys(const AttentionBlock& block) const {
    return {{.m = block.keys,
             .n = d,
             .k = block.queries,
             .ab = dtype,
             .c = Dtype::float32,
             .a_layout = Layout::transposed,
             .into = Into::add},
            g,
            scores(block),
            queries(),
            keys()};
  }

  // --- workspace

  // The bytes of one block's scores in that dtype.
  static int64_t bytes_of(const AttentionBlock& block, Dtype dtype) {
    return round_up(block.heads * block.queries * block.width * size_bytes(dtype), kAlignment);
  }
  int64_t sums_bytes() const {
    return round_up(t * g * d * size_bytes(Dtype::float32), kAlignment);
  }
  int64_t product_bytes(const AttentionBlock& block, bool backward) const {
    int64_t bytes = std::max(cublaslt_workspace_bytes(to_scores(block)),
                             cublaslt_workspace_bytes(to_queries(block)));
    if (backward) bytes = std::max(bytes, cublaslt_workspace_bytes(to_keys(block)));
    return bytes;
  }
  int64_t workspace_bytes(bool backward) const {
    int64_t most = 0;
    for (const AttentionBlock& block : blocks(backward)) {
      const int64_t of_one =
          bytes_of(block, Dtype::float32) + (is_rounded() ? bytes_of(block, dtype) : 0);
      most = std::max(most, (backward ? 2 : 1) * of_one + product_bytes(block, backward));
    }
    return most + (backward && is_rounded() ? 2 * sums_bytes() : 0);
  }
};

// Hands out the workspace, from its beginning.
class Pieces {
 public:
  explicit Pieces(std::span<std::byte> workspace) : rest_(workspace) {}

  void* take(int64_t bytes) {
    void* piece = rest_.data();
    rest_ = rest_.subspan(static_cast<size_t>(bytes));
    return piece;
  }
  std::span<std::byte> rest() const { return rest_; }

 private:
  std::span<std::byte> rest_;
};

class Attention {
 public:
  Attention(const KernelCall& call, const AttentionBlockParts& parts, const Ref& q, const Ref& k)
      : call_(call),
        parts_(parts),
        s_(std::any_cast<const AttentionAttrs&>(call.attrs), q.type, k.type) {}

  void forward() const {
    const auto &q = call_.in[0], &k = call_.in[1], &v = call_.in[2], &out = call_.out[0];
    for (int64_t b = 0; b < s_.b; ++b)
      for (const AttentionBlock& block : s_.blocks(false))
        for (int64_t member = 0; member < s_.group; ++member) {
          Pieces pieces(call_.workspace);
          auto* scores = static_cast<float*>(pieces.take(Sizes::bytes_of(block, Dtype::float32)));
          void* probabilities =
              s_.is_rounded() ? pieces.take(Sizes::bytes_of(block, s_.dtype)) : scores;
          multiply(s_.to_scores(block), of_query(q, b, block, member), of_key(k, b, block), scores,
                   pieces);
          parts_.softmax({.scores = scores_of(block, b, scores),
                          .log_sum_exp = log_sum_exp(call_.out[1], b, block, member),
                          .head_stride = s_.group * s_.t,
                          .dtype = s_.dtype,
                          .probabilities = probabilities},
                         call_.stream);
          multiply(s_.to_queries(block), probabilities, of_key(v, b, block),
                   of_query(out, b, block, member), pieces);
        }
  }

  void backward() const {
    const auto &dout = call_.in[0], &q = call_.in[1], &k = call_.in[2], &v = call_.in[3];
    const auto &out = call_.in[4], &log_sum_exps = call_.in[5];
    for (int64_t b = 0; b < s_.b; ++b) {
      Pieces of_row(call_.workspace);
      float* dk = zeroed_sums(call_.out[1], b, of_row);
      float* dv = zeroed_sums(call_.out[2], b, of_row);
      for (const AttentionBlock& block : s_.blocks(true))
        for (int64_t member = 0; member < s_.group; ++member) {
          Pieces pieces = of_row;
          const int64_t wide = Sizes::bytes_of(block, Dtype::float32);
          auto* scores = static_cast<float*>(pieces.take(wide));
          auto* dprobabilities = static_cast<float*>(pieces.take(wide));
          const int64_t narrow = Sizes::bytes_of(block, s_.dtype);
          void* probabilities = s_.is_rounded() ? pieces.take(narrow) : scores;
          void* dproducts = s_.is_rounded() ? pieces.take(narrow) : dprobabilities;
          void* q_here = of_query(q, b, block, member);
          void* dout_here = of_query(dout, b, block, member);
          multiply(s_.to_scores(block), q_here, of_key(k, b, block), scores, pieces);
          multiply(s_.to_scores(block), dout_here, of_key(v, b, block), dprobabilities, pieces);
          parts_.softmax_grad({.scores = scores_of(block, b, scores),
                               .log_sum_exp = log_sum_exp(log_sum_exps, b, block, member),
                               .head_stride = s_.group * s_.t,
                               .dtype = s_.dtype,
                               .out = of_query(out, b, block, member),
                               .dout = dout_here,
                               .head_dim = s_.d,
                               .out_query_stride = s_.queries().row,
                               .out_head_stride = s_.queries().next,
                               .dprobabilities = dprobabilities,
                               .probabilities = probabilities,
                               .dproducts = dproducts},
                              call_.stream);
          multiply(s_.to_queries(block), dproducts, of_key(k, b, block),
                   of_query(call_.out[0], b, block, member), pieces);
          const int64_t first = block.key * s_.keys().row;
          multiply(s_.to_keys(block), probabilities, dout_here, dv + first, pieces);
          multiply(s_.to_keys(block), dproducts, q_here, dk + first, pieces);
        }
      round_sums(dk, call_.out[1], b);
      round_sums(dv, call_.out[2], b);
    }
  }

 private:
  // Where a head of a position begins, in row `b` of the batch.
  void* at(const Ref& ref, int64_t b, int64_t position, int64_t heads, int64_t head) const {
    return ref.as<std::byte>() +
           (((b * s_.t + position) * heads + head) * s_.d) * size_bytes(ref.type.dtype);
  }
  void* of_query(const Ref& ref, int64_t b, const AttentionBlock& block, int64_t member) const {
    return at(ref, b, block.query, s_.h, member);
  }
  void* of_key(const Ref& ref, int64_t b, const AttentionBlock& block) const {
    return at(ref, b, block.key, s_.g, 0);
  }
  float* log_sum_exp(const Ref& ref, int64_t b, const AttentionBlock& block, int64_t member) const {
    return ref.as<float>() + (b * s_.h + member) * s_.t + block.query;
  }

  AttentionScores scores_of(const AttentionBlock& block, int64_t b, float* scores) const {
    const AttentionOptions& options = s_.attrs.options;
    return {.block = block,
            .scale = static_cast<float>(options.score_scale()),
            .soft_cap = static_cast<float>(options.soft_cap),
            .rule = key_rule(call_, b),
            .scores = scores};
  }

  void multiply(const Matmuls& matmuls, const void* a, const void* b, void* c,
                const Pieces& pieces) const {
    parts_.multiply(matmuls, a, b, c, c, pieces.rest(), call_.stream);
  }

  // The float32 memory that dk or dv of a row of the batch are added up in.
  float* zeroed_sums(const Ref& ref, int64_t b, Pieces& pieces) const {
    auto* sums = static_cast<float*>(s_.is_rounded() ? pieces.take(s_.sums_bytes())
                                                     : at(ref, b, 0, s_.g, 0));
    parts_.zero({.numbers = sums, .count = s_.t * s_.g * s_.d}, call_.stream);
    return sums;
  }
  void round_sums(const float* sums, const Ref& ref, int64_t b) const {
    if (s_.is_rounded())
      parts_.round({.from = sums,
                    .count = s_.t * s_.g * s_.d,
                    .to = static_cast<bfloat16*>(at(ref, b, 0, s_.g, 0))},
                   call_.stream);
  }

  const KernelCall& call_;
  const AttentionBlockParts& parts_;
  const Sizes s_;
};

}  // namespace

void run_attention_blocks(const KernelCall& call, const AttentionBlockParts& parts) {
  Attention(call, parts, call.in[0], call.in[1]).forward();
}

void run_attention_grad_blocks(const KernelCall& call, const AttentionBlockParts& parts) {
  Attention(call, parts, call.in[1], call.in[2]).backward();
}

int64_t attention_blocks_workspace(const AttentionAttrs& attrs, const Type& q, const Type& k) {
  return Sizes(attrs, q, k).workspace_bytes(false);
}

int64_t attention_grad_blocks_workspace(const AttentionAttrs& attrs, const Type& q, const Type& k) {
  return Sizes(attrs, q, k).workspace_bytes(true);
}

}  // namespace longshore::models
