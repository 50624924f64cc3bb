// These limits bound the sizes of a model, wherever it is described: in a config, in Hugging Face's
// config.json, in an adapter's. They are far beyond any model there is, and chosen together, so
// that products of sizes (bytes of all parameters or activations) fit in int64_t.
#pragma once

#include <cstdint>

namespace longshore::models {

inline constexpr int64_t kMaxWidth = 1 << 18;
inline constexpr int64_t kMaxMlpWidth = 1 << 20;
inline constexpr int64_t kMaxLayers = 1 << 12;
inline constexpr int64_t kMaxHeads = 1 << 10;  // of queries, and of keys and values
inline constexpr int64_t kMaxHeadDim = 1 << 10;
inline constexpr int64_t kMaxExperts = 1 << 12;
inline constexpr int64_t kMinVocabulary = 2;  // of one token there is nothing to predict
inline constexpr int64_t kMaxVocabulary = 1 << 22;
inline constexpr int64_t kMaxLength = 1 << 22;  // tokens of a row
inline constexpr int64_t kMaxLoraRank = 1 << 14;

}  // namespace longshore::models
