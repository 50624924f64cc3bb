// Products of bfloat16 by a GPU's tensor cores, of what a block of threads has in its fast memory,
// and copies to there that go on while others are computed with (compute capability 8.0 and later).
// On the CPU, which emulates them, a copy is there at once, and each lane computes its own numbers
// one by one.
#pragma once

#include <cstdint>
#include <cstring>

#include "longshore/base/bfloat16.h"
#include "longshore/base/device.h"
#include "longshore/models/ops/kernels/numbers.h"

namespace longshore::models {

inline constexpr int kChunk = 8;  // numbers that are copied at a time, 16 bytes

// --- copies

// Of a chunk, or of zeros where that is not there.
LONGSHORE_INLINE void copy_chunk(bfloat16* to, const bfloat16* from, bool is_there) {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(__cvta_generic_to_global(from)), "r"(is_there ? 16 : 0)
               : "memory");
#else
  for (int i = 0; i < kChunk; ++i) to[i] = is_there ? from[i] : bfloat16{};
#endif
}

// Ends a run of a thread's copies.
LONGSHORE_INLINE void end_copies() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Until all of a thread's runs but the last so many are done.
template <int kRuns>
LONGSHORE_INLINE void wait_for_copies() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.wait_group %0;" ::"n"(kRuns) : "memory");
#endif
}

// --- operands

inline constexpr int kTileTerms = 32;  // that a tile has of each row or column

// How rows of A, or columns of B, lie in fast memory: one after the other, or all of a term and
// then those of the next. Chunks change places so that eight neighbours are in different banks.
template <bool kTermsAdjacent>
struct SharedTile {
  int count;  // of rows or columns: 4 chunks of them, or twice as often

  LONGSHORE_INLINE int lines() const { return kTermsAdjacent ? count : kTileTerms; }
  LONGSHORE_INLINE int line_chunks() const {
    return (kTermsAdjacent ? kTileTerms : count) / kChunk;
  }
  LONGSHORE_INLINE int size() const { return count * kTileTerms; }

  // Where a chunk of a line begins.
  LONGSHORE_INLINE int place(int line, int chunk) const {
    const int chunks = line_chunks();
    const int turn = chunks >= 8 ? line % 8 : line / (8 / chunks) % chunks;
    return (line * chunks + (chunk ^ turn)) * kChunk;
  }
  LONGSHORE_INLINE int place_of(int index, int term) const {
    const int line = kTermsAdjacent ? index : term, at = kTermsAdjacent ? term : index;
    return place(line, at / kChunk) + at % kChunk;
  }
};

// --- a warp's products

inline constexpr int kWarpColumns = 32;

// Of a lane. Of each 16 rows by 8 columns it has two numbers in row lane / 4 and two in the row 8
// below, in columns lane % 4 * 2 and the next.
template <int kRows>
struct WarpSums {
  float of[kRows / 16][kWarpColumns / 8][4];
};

LONGSHORE_INLINE int row_of_sum(int lane, int number) { return lane / 4 + number / 2 * 8; }
LONGSHORE_INLINE int column_of_sum(int lane, int number) { return lane % 4 * 2 + number % 2; }

// Where the line of an operand begins that a lane gives of four matrices of 8 by 8: of A those of
// 16 rows by 16 terms, rows first, of B of 16 columns by 16 terms, terms first.
template <bool kAdjacent>
LONGSHORE_INLINE int line_of_a(SharedTile<kAdjacent> tile, int lane, int row, int term) {
  const int of_rows = lane / 8 % 2 * 8, of_terms = lane / 16 * 8;
  return kAdjacent ? tile.place_of(row + of_rows + lane % 8, term + of_terms)
                   : tile.place_of(row + of_rows, term + of_terms + lane % 8);
}
template <bool kAdjacent>
LONGSHORE_INLINE int line_of_b(SharedTile<kAdjacent> tile, int lane, int column, int term) {
  const int of_terms = lane / 8 % 2 * 8, of_columns = lane / 16 * 8;
  return kAdjacent ? tile.place_of(column + of_columns + lane % 8, term + of_terms)
                   : tile.place_of(column + of_columns, term + of_terms + lane % 8);
}

#ifdef __CUDA_ARCH__
// Four matrices of 8 by 8, of which lanes 8i.. to 8i+7 give the lines of the i-th.
template <bool kTransposed>
LONGSHORE_INLINE void load_matrices(const bfloat16* line, uint32_t& a, uint32_t& b, uint32_t& c,
                                    uint32_t& d) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(line));
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(address)
                 : "memory");
}

LONGSHORE_INLINE void multiply_add(float (&sum)[4], const uint32_t (&a)[4],
                                   const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

// Adds to the sums of a lane the products of a tile's terms, kRows rows from `row` on and
// kWarpColumns columns from `column` on. All lanes of a warp call it together.
template <int kRows, bool kAdjacentA, bool kAdjacentB>
LONGSHORE_INLINE void multiply_tile(WarpSums<kRows>& sums, int lane, SharedTile<kAdjacentA> a_tile,
                                    const bfloat16* a, int row, SharedTile<kAdjacentB> b_tile,
                                    const bfloat16* b, int column) {
#ifdef __CUDA_ARCH__
  LONGSHORE_UNROLL(2)
  for (int term = 0; term < kTileTerms; term += 16) {
    uint32_t of_b[kWarpColumns / 8][2];
    LONGSHORE_UNROLL(2)
    for (int n = 0; n < kWarpColumns / 8; n += 2)
      load_matrices<!kAdjacentB>(b + line_of_b(b_tile, lane, column + n * 8, term), of_b[n][0],
                                 of_b[n][1], of_b[n + 1][0], of_b[n + 1][1]);
    LONGSHORE_UNROLL(4)
    for (int m = 0; m < kRows / 16; ++m) {
      uint32_t of_a[4];
      load_matrices<!kAdjacentA>(a + line_of_a(a_tile, lane, row + m * 16, term), of_a[0], of_a[1],
                                 of_a[2], of_a[3]);
      LONGSHORE_UNROLL(4)
      for (int n = 0; n < kWarpColumns / 8; ++n) multiply_add(sums.of[m][n], of_a, of_b[n]);
    }
  }
#else
  for (int m = 0; m < kRows / 16; ++m)
    for (int n = 0; n < kWarpColumns / 8; ++n)
      for (int i = 0; i < 4; ++i)
        for (int term = 0; term < kTileTerms; ++term)
          sums.of[m][n][i] +=
              load(a[a_tile.place_of(row + m * 16 + row_of_sum(lane, i), term)]) *
              load(b[b_tile.place_of(column + n * 8 + column_of_sum(lane, i), term)]);
#endif
}

}  // namespace longshore::models
