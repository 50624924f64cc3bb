// Shapes and dtypes of values. No ATen here, so that planning builds and runs without it.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace longshore::models {

enum class Dtype : uint8_t { float64, float32, bfloat16, int32, uint8 };

int64_t size_bytes(Dtype dtype);
const char* name(Dtype dtype);  // "f64", "f32", "bf16", "i32", "u8"

// Up to four dimensions, all known (batch and length come from the config). Rank 0 is a scalar.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes);

  int rank() const { return rank_; }
  int64_t operator[](int dimension) const { return sizes_[dimension]; }
  int64_t back() const { return sizes_[rank_ - 1]; }
  int64_t count() const;                // number of elements; 1 for a scalar
  int64_t rows() const;                 // count() / back(): the matrix that rank >= 1 flattens to
  Shape with_back(int64_t size) const;  // the same shape with another last dimension
  Shape with(int dimension, int64_t size) const;  // ... with another size of that one
  std::vector<int64_t> sizes() const;             // as files and other libraries have them
  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};

struct Type {
  Shape shape;
  Dtype dtype = Dtype::float32;

  int64_t bytes() const { return shape.count() * size_bytes(dtype); }
  bool operator==(const Type&) const = default;
};

std::string text(const Type& type);  // "bf16[8,256,320]"

}  // namespace longshore::models
