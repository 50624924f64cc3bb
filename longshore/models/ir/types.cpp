#include "longshore/models/ir/types.h"

#include "longshore/base/error.h"

namespace longshore::models {

int64_t size_bytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::float64:
      return 8;
    case Dtype::float32:
    case Dtype::int32:
      return 4;
    case Dtype::bfloat16:
      return 2;
    case Dtype::uint8:
      return 1;
  }
  throw InternalError("size_bytes: unknown dtype");
}

const char* name(Dtype dtype) {
  switch (dtype) {
    case Dtype::float64:
      return "f64";
    case Dtype::float32:
      return "f32";
    case Dtype::bfloat16:
      return "bf16";
    case Dtype::int32:
      return "i32";
    case Dtype::uint8:
      return "u8";
  }
  throw InternalError("name: unknown dtype");
}

Shape::Shape(std::initializer_list<int64_t> sizes) {
  if (sizes.size() > kMaxRank) throw InternalError("Shape: more than four dimensions");
  for (int64_t size : sizes) {
    if (size <= 0) throw InternalError("Shape: a dimension of " + std::to_string(size));
    sizes_[rank_++] = size;
  }
}

int64_t Shape::count() const {
  int64_t count = 1;
  for (int i = 0; i < rank_; ++i)
    if (__builtin_mul_overflow(count, sizes_[i], &count))
      throw InternalError("Shape: more than 2^63 elements");
  return count;
}

int64_t Shape::rows() const { return count() / back(); }

std::vector<int64_t> Shape::sizes() const { return {sizes_.begin(), sizes_.begin() + rank_}; }

Shape Shape::with_back(int64_t size) const {
  Shape shape = *this;
  shape.sizes_[rank_ - 1] = size;
  return shape;
}

Shape Shape::with(int dimension, int64_t size) const {
  Shape shape = *this;
  shape.sizes_[dimension] = size;
  return shape;
}

std::string text(const Type& type) {
  std::string result = std::string(name(type.dtype)) + "[";
  for (int i = 0; i < type.shape.rank(); ++i)
    result += (i ? "," : "") + std::to_string(type.shape[i]);
  return result + "]";
}

}  // namespace longshore::models
