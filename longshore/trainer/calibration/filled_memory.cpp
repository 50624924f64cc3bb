#include "longshore/trainer/calibration/filled_memory.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "longshore/trainer/calibration/ordinary_numbers.h"

namespace longshore::trainer {
namespace {

using models::Dtype;

// Every vocabulary that is measured has them. The gradient of an embedding whose tokens are all the
// same takes far longer than in training.
constexpr uint32_t kTokenIds = 1021;

std::vector<uint32_t> numbers(Dtype dtype, int64_t bytes, Contents contents) {
  const bool is_float = dtype == Dtype::float32 || dtype == Dtype::bfloat16;
  if (is_float && contents == Contents::ordinary) return ordinary_numbers(dtype, bytes);
  std::vector<uint32_t> words(static_cast<size_t>((bytes + 3) / 4));
  uint32_t i = 0;
  for (uint32_t& word : words) {
    if (dtype == Dtype::float32)
      word = std::bit_cast<uint32_t>(0.001f * static_cast<float>(1 + i++ % 97));
    else if (dtype == Dtype::bfloat16)  // numbers from 0.0625 up, two in a word
      word = 0x3d803d80 + (i++ % 97) * 0x10001;
    else if (dtype == Dtype::int32)
      word = i++ % kTokenIds;
  }
  return words;
}

}  // namespace

FilledMemory::FilledMemory(offload::Backend& backend, offload::MemoryKind kind, Dtype dtype,
                           int64_t bytes, Contents contents)
    : backend_(backend),
      kind_(kind),
      memory_(backend.allocate(kind, std::max<int64_t>(bytes, 64))) {
  constexpr int64_t kMaxPeriod = int64_t{16} << 20;  // bytes after which the numbers repeat
  const int64_t period = std::min(bytes, kMaxPeriod);
  const std::vector<uint32_t> words = numbers(dtype, period, contents);
  for (int64_t at = 0; at < bytes; at += period)
    backend.write(kind, memory_ + at, words.data(), std::min(period, bytes - at));
}

FilledMemory::FilledMemory(FilledMemory&& other) noexcept
    : backend_(other.backend_),
      kind_(other.kind_),
      memory_(std::exchange(other.memory_, nullptr)) {}

FilledMemory::~FilledMemory() {
  if (memory_) backend_.free(kind_, memory_);
}

}  // namespace longshore::trainer
