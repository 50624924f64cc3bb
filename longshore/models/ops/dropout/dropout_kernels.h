// How kernels draw which numbers drop out, and our custom kernel on a GPU.
//
// The numbers of a row are in groups of 128. One Philox block serves four of them, 32 apart. The
// block's counter: the number of the block in the row, in 40 bits; the row's number; the sequence,
// moved on by the layer; and RandomUse::dropout with the number's high bits. The key is the seed.
#pragma once

#include "longshore/base/philox.h"
#include "longshore/base/round_up.h"
#include "longshore/models/ir/op.h"
#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/numbers.h"
#include "longshore/models/ops/kernels/thread_group.h"

namespace longshore::models {

inline constexpr int64_t kDropoutBlocks = 32;  // of a group
inline constexpr int64_t kDropoutGroup = 4 * kDropoutBlocks;

struct DropoutArguments {
  Dtype dtype;  // float32 or bfloat16
  int64_t rows, row_size;
  uint32_t threshold;  // what drops out: words below it
  float factor;        // of what does not
  uint64_t seed;
  uint32_t sequence;
  const int32_t* row_numbers;  // [rows]
  const float* layer;          // [1]
  const void* x;
  void* out;
};

DropoutArguments dropout_arguments(const KernelCall& call);
// Into a cudaStream_t; throws Error when the launch fails.
void launch_dropout(const DropoutArguments& arguments, void* stream);

LONGSHORE_DEVICE constexpr PhiloxBlock dropout_counter(int64_t block, int32_t row,
                                                       uint32_t sequence, float layer) {
  constexpr uint32_t kOfLayer = 0x9E3779B9;  // odd, so that layers differ
  return {static_cast<uint32_t>(block), static_cast<uint32_t>(row),
          sequence + static_cast<uint32_t>(layer) * kOfLayer,
          static_cast<uint32_t>(RandomUse::dropout) |
              static_cast<uint32_t>(static_cast<uint64_t>(block) >> 32) << 24};
}

// --- the body, and how it is launched

// A block of threads has so many Philox blocks of one row.
template <class T>
struct DropoutBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int64_t kPart = 1024;
  DropoutArguments a;

  static int64_t parts(int64_t row_size) {
    return ceil_div(ceil_div(row_size, kDropoutGroup) * kDropoutBlocks, kPart);
  }

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t of_row = (a.row_size + kDropoutGroup - 1) / kDropoutGroup * kDropoutBlocks;
    const int64_t parts_of_row = (of_row + kPart - 1) / kPart;
    const int64_t row = index / parts_of_row, first = index % parts_of_row * kPart;
    const int64_t left = of_row - first;
    const T* const x = static_cast<const T*>(a.x) + row * a.row_size;
    T* const out = static_cast<T*>(a.out) + row * a.row_size;
    group.for_each(left < kPart ? left : kPart, [&](int64_t i) {
      const int64_t block = first + i;
      const PhiloxBlock words =
          philox(dropout_counter(block, a.row_numbers[row], a.sequence, *a.layer),
                 {static_cast<uint32_t>(a.seed), static_cast<uint32_t>(a.seed >> 32)});
      int64_t at = block / kDropoutBlocks * kDropoutGroup + block % kDropoutBlocks;
      for (int word = 0; word < 4; ++word, at += kDropoutBlocks)
        if (at < a.row_size) store(out[at], words[word] < a.threshold ? 0 : load(x[at]) * a.factor);
    });
  }
};

template <class Launcher>
void launch(const DropoutArguments& a, const Launcher& launcher) {
  with_float_type(a.dtype, [&]<class T>(T) {
    using Body = DropoutBody<T>;
    launcher(Body{a}, a.rows * Body::parts(a.row_size));
  });
}

}  // namespace longshore::models
