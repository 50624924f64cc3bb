#include "longshore/data/gguf/gguf.h"

#include "longshore/base/error.h"
#include "longshore/base/printable.h"

namespace longshore::data {

const char* name(GgufType type) {
  switch (type) {
    case GgufType::float32:
      return "F32";
    case GgufType::float16:
      return "F16";
    case GgufType::bfloat16:
      return "BF16";
    case GgufType::q8_0:
      return "Q8_0";
  }
  throw InternalError("no such type of GGUF");
}

int64_t block_elements(GgufType type) { return type == GgufType::q8_0 ? 32 : 1; }

int64_t block_bytes(GgufType type) {
  switch (type) {
    case GgufType::float32:
      return 4;
    case GgufType::float16:
    case GgufType::bfloat16:
      return 2;
    case GgufType::q8_0:
      return 2 + 32;
  }
  throw InternalError("no such type of GGUF");
}

int64_t GgufTensorInfo::element_count() const {
  int64_t count = 1;
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count))
      throw DataError("tensor " + in_quotes(name) + ": more than 2^63 - 1 elements");
  return count;
}

int64_t GgufTensorInfo::bytes() const {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(element_count() / block_elements(type), block_bytes(type), &bytes))
    throw DataError("tensor " + in_quotes(name) + ": more than 2^63 - 1 bytes");
  return bytes;
}

}  // namespace longshore::data
