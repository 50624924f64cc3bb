// Our custom kernel on a GPU of an embedding's gradient.
#pragma once

#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/thread_group.h"
#include "longshore/models/ops/kernels/vectors.h"

namespace longshore::models {

struct EmbeddingGradArguments {
  Dtype dtype;  // of dy: float32 or bfloat16
  int64_t tokens, vocabulary, width;
  int64_t padding;      // id whose row gets nothing; -1: none
  const int32_t* ids;   // [tokens], each in [0, vocabulary)
  const void* dy;       // [tokens, width]
  int32_t* sorted;      // [2, tokens]: tokens in the order of their ids, and these ids
  const float* so_far;  // [vocabulary, width]; null where there is no sum yet; may be dweight
  float* dweight;       // [vocabulary, width]
};

EmbeddingGradArguments embedding_grad_arguments(const KernelCall& call);
// Into a cudaStream_t; throws Error when the launch fails.
void launch_embedding_grad(const EmbeddingGradArguments& arguments, void* stream);

// --- bodies, and how they are launched

// Sorts the tokens by id, equal ids in order: a token's place is the number of tokens that belong
// before it. That is tokens² comparisons of integers, a billion for 32k tokens, and needs neither
// passes nor atomics.
struct SortTokensBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int kTokens = 8;  // of a block, which reads all ids once for them
  int64_t tokens;
  const int32_t* ids;
  int32_t* sorted;

  struct Places {
    int32_t before[kTokens];
  };

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t first = index * kTokens;
    int32_t mine[kTokens];
    for (int k = 0; k < kTokens; ++k) mine[k] = first + k < tokens ? ids[first + k] : 0;
    const Places places = group.reduce(
        tokens, Places{},
        [&](Places& so_far, int64_t other) {
          const int32_t id = ids[other];
          for (int k = 0; k < kTokens; ++k)
            so_far.before[k] += id < mine[k] || (id == mine[k] && other < first + k);
        },
        [](Places& one, const Places& other) {
          for (int k = 0; k < kTokens; ++k) one.before[k] += other.before[k];
        });
    group.once([&] {
      for (int k = 0; k < kTokens && first + k < tokens; ++k) {
        sorted[places.before[k]] = static_cast<int32_t>(first + k);
        sorted[tokens + places.before[k]] = mine[k];
      }
    });
  }
};

// A block has a place among the sorted tokens and some columns. The block of an id's first place
// adds all rows of that id to the weight's, in order; the others do nothing.
template <class T, int kVector>
struct EmbeddingGradBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int64_t kColumns = int64_t{kThreads} * kVector;
  static constexpr int kRowsAtOnce = 8;  // read before the first is added
  EmbeddingGradArguments a;
  int64_t column_blocks;

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int32_t *order = a.sorted, *ids = a.sorted + a.tokens;
    const int64_t first = index / column_blocks, column = index % column_blocks * kColumns;
    const int32_t id = ids[first];
    if (id == a.padding || (first > 0 && ids[first - 1] == id)) return;
    const int64_t end = end_of_run(ids, first);
    const int64_t columns = a.width - column < kColumns ? a.width - column : kColumns;
    const T* dy = static_cast<const T*>(a.dy) + column;
    float* dweight = a.dweight + id * a.width + column;
    group.for_each(columns / kVector, [&](int64_t i) {
      float sums[kVector];
      load_vector(dweight + i * kVector, sums);
      auto row = [&](int64_t token) {
        return *reinterpret_cast<const Vector<T, kVector>*>(dy + token * a.width + i * kVector);
      };
      auto add = [&](const Vector<T, kVector>& values) {
        for (int k = 0; k < kVector; ++k) sums[k] += load(values.values[k]);
      };
      int64_t place = first;
      for (; place + kRowsAtOnce <= end; place += kRowsAtOnce) {
        int32_t tokens[kRowsAtOnce];
        Vector<T, kVector> rows[kRowsAtOnce];
        LONGSHORE_UNROLL(kRowsAtOnce)
        for (int r = 0; r < kRowsAtOnce; ++r) tokens[r] = order[place + r];
        LONGSHORE_UNROLL(kRowsAtOnce)
        for (int r = 0; r < kRowsAtOnce; ++r) rows[r] = row(tokens[r]);
        LONGSHORE_UNROLL(kRowsAtOnce)
        for (int r = 0; r < kRowsAtOnce; ++r) add(rows[r]);
      }
      for (; place < end; ++place) add(row(order[place]));
      store_vector(dweight + i * kVector, sums);
    });
  }

  // The place after the last that has the id of `first`. Most runs are short. Known beforehand, a
  // run's rows can be read several at a time.
  LONGSHORE_BODY int64_t end_of_run(const int32_t* ids, int64_t first) const {
    const int32_t id = ids[first];
    int64_t step = 1;
    while (first + step < a.tokens && ids[first + step] == id) step *= 2;
    int64_t inside = first + step / 2;  // has the id
    int64_t behind = first + step < a.tokens ? first + step : a.tokens;
    while (behind - inside > 1) {
      const int64_t middle = inside + (behind - inside) / 2;
      (ids[middle] == id ? inside : behind) = middle;
    }
    return behind;
  }
};

template <class Launcher>
void launch(const EmbeddingGradArguments& a, const Launcher& launcher) {
  const int64_t bytes = a.vocabulary * a.width * static_cast<int64_t>(sizeof(float));
  if (!a.so_far)
    launcher.zero(a.dweight, bytes);
  else if (a.so_far != a.dweight)
    launcher.copy(a.dweight, a.so_far, bytes);
  launcher(SortTokensBody{a.tokens, a.ids, a.sorted}, ceil_div(a.tokens, SortTokensBody::kTokens));
  with_float_type(a.dtype, [&]<class T>(T) {
    const bool fit = a.width % kVectorOf<T> == 0 && all_aligned({a.dy, a.dweight});
    with_vectors<T>(fit, [&]<int kVector>(std::integral_constant<int, kVector>) {
      using Body = EmbeddingGradBody<T, kVector>;
      const int64_t column_blocks = ceil_div(a.width, Body::kColumns);
      launcher(Body{a, column_blocks}, a.tokens * column_blocks);
    });
  });
}

}  // namespace longshore::models
