// The lines that a warp's lanes give of operands in fast memory, and where its sums lie, by what
// PTX says of ldmatrix and of mma.m16n8k16: emulated kernels compute without these.
#include "longshore/models/ops/kernels/tensor_cores.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace longshore::models {
namespace {

constexpr int kLanes = 32;

// Two numbers of each of four matrices.
using Registers = std::array<std::array<float, 2>, 4>;

// ldmatrix: lines[lane] is where the line of matrix lane / 8 begins. A lane gets numbers 2i and
// 2i + 1 of line lane / 4, where i is lane % 4; transposed, of its column.
std::array<Registers, kLanes> load_matrices(const std::vector<bfloat16>& shared,
                                            const std::array<int, kLanes>& lines,
                                            bool is_transposed) {
  std::array<Registers, kLanes> all;
  for (int lane = 0; lane < kLanes; ++lane)
    for (int matrix = 0; matrix < 4; ++matrix)
      for (int i = 0; i < 2; ++i) {
        const int line = lane / 4, at = lane % 4 * 2 + i;
        all[lane][matrix][i] = is_transposed ? load(shared[lines[matrix * 8 + at] + line])
                                             : load(shared[lines[matrix * 8 + line] + at]);
      }
  return all;
}

// mma's operands as matrices: A [16 rows, 16 terms] of four registers of two numbers, B [16 terms,
// 8 columns] of two.
std::array<std::array<float, 16>, 16> operand_a(const std::array<Registers, kLanes>& lanes) {
  std::array<std::array<float, 16>, 16> a{};
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < 8; ++i) {
      const bool is_upper = i < 2 || (4 <= i && i < 6);
      a[lane / 4 + (is_upper ? 0 : 8)][lane % 4 * 2 + i % 2 + (i < 4 ? 0 : 8)] =
          lanes[lane][i / 2][i % 2];
    }
  return a;
}
std::array<std::array<float, 8>, 16> operand_b(const std::array<Registers, kLanes>& lanes,
                                               int first) {
  std::array<std::array<float, 8>, 16> b{};
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < 4; ++i)
      b[lane % 4 * 2 + i % 2 + (i < 2 ? 0 : 8)][lane / 4] = lanes[lane][first + i / 2][i % 2];
  return b;
}

// A tile whose number of an index and a term is 32 index + term, where it lies; each place is
// one's.
template <bool kAdjacent>
std::vector<bfloat16> numbered(SharedTile<kAdjacent> tile) {
  std::vector<bfloat16> shared(tile.size(), to_bfloat16(-1));
  for (int index = 0; index < tile.count; ++index)
    for (int term = 0; term < kTileTerms; ++term) {
      bfloat16& at = shared[tile.place_of(index, term)];
      EXPECT_EQ(load(at), -1) << index << ", " << term;
      // At most 8 bits: exact.
      at = to_bfloat16(static_cast<float>((index * 37 + term * 5) % 251));
    }
  return shared;
}
float number(int index, int term) { return static_cast<float>((index * 37 + term * 5) % 251); }

template <bool kAdjacent>
void expect_operands(int count) {
  SCOPED_TRACE(std::to_string(count) + (kAdjacent ? ", terms adjacent" : ""));
  const SharedTile<kAdjacent> tile{count};
  const std::vector<bfloat16> shared = numbered(tile);
  for (int first = 0; first < count; first += 16)
    for (int term = 0; term < kTileTerms; term += 16) {
      std::array<int, kLanes> lines_a, lines_b;
      for (int lane = 0; lane < kLanes; ++lane) {
        lines_a[lane] = line_of_a(tile, lane, first, term);
        lines_b[lane] = line_of_b(tile, lane, first, term);
      }
      const auto a = operand_a(load_matrices(shared, lines_a, !kAdjacent));
      for (int i = 0; i < 16; ++i)
        for (int k = 0; k < 16; ++k) EXPECT_EQ(a[i][k], number(first + i, term + k));
      const auto registers = load_matrices(shared, lines_b, !kAdjacent);
      for (int half = 0; half < 2; ++half) {
        const auto b = operand_b(registers, 2 * half);
        for (int k = 0; k < 16; ++k)
          for (int j = 0; j < 8; ++j) EXPECT_EQ(b[k][j], number(first + 8 * half + j, term + k));
      }
    }
}

TEST(TensorCores, OperandsAreWhatTheProductTakes) {
  for (int count : {32, 64, 128}) {
    expect_operands<true>(count);
    expect_operands<false>(count);
  }
}

// Eight lines that are read together are in different banks: 16 bytes of each 128.
template <bool kAdjacent>
void expect_different_banks(int count) {
  const SharedTile<kAdjacent> tile{count};
  for (int index = 0; index < count; index += kAdjacent ? 8 : kChunk)
    for (int term = 0; term < kTileTerms; term += 8) {
      int banks = 0;
      for (int i = 0; i < 8; ++i)
        banks |=
            1 << (kAdjacent ? tile.place_of(index + i, term) : tile.place_of(index, term + i)) /
                     kChunk % 8;
      EXPECT_EQ(banks, 0xff) << count << ": " << index << ", " << term;
    }
}

TEST(TensorCores, LinesReadTogetherAreInDifferentBanks) {
  for (int count : {32, 64, 128}) {
    expect_different_banks<true>(count);
    expect_different_banks<false>(count);
  }
}

TEST(TensorCores, SumsAreWhereTheProductHasThem) {
  const std::array<std::array<int, 2>, 4> expected{{{0, 0}, {0, 1}, {8, 0}, {8, 1}}};
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(row_of_sum(lane, i), lane / 4 + expected[i][0]);
      EXPECT_EQ(column_of_sum(lane, i), lane % 4 * 2 + expected[i][1]);
    }
}

}  // namespace
}  // namespace longshore::models
