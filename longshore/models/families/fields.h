// The fields of a decoder's description, one table: their keys in configs and in config.json, and
// what they may be. From it come the keys of configs and their help, the reading and writing of
// config.json, and the comparison of a config with published weights.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <variant>
#include <vector>

#include "longshore/models/families/decoder_config.h"

namespace longshore::models {

enum class FieldKind : uint8_t {
  size,    // an integer that config.json has to say
  count,   // an integer that 0 stands for where it is not said
  number,  // above 0
  cap,     // a soft-cap: null in config.json and 0 here mean none
  flag,
  other  // config.json says it in ways of its own: see longshore/models/hf/
};

struct Field {
  const char* key;     // of configs
  const char* hf_key;  // of config.json
  FieldKind kind;
  std::variant<int64_t DecoderConfig::*, double DecoderConfig::*, bool DecoderConfig::*,
               std::optional<int64_t> DecoderConfig::*, std::optional<double> DecoderConfig::*>
      member;
  double low, high;  // both are valid
  const char* help;
  bool low_is_excluded = false;
  double unset = 0;  // what configs say where an optional one is not set
};

// In the order in which help shows them.
const std::vector<const Field*>& decoder_fields();

extern const Field kWidth, kLayers, kQueryHeads, kKvHeads, kHeadDim, kMlpWidth, kVocabulary,
    kNormEpsilon, kRopeBase, kTiedEmbeddings, kAttentionBias, kMlpBias, kWindow,
    kFullAttentionPeriod, kNopeLayerInterval, kQueryPreAttnScalar, kEmbeddingMultiplier,
    kAttentionMultiplier, kResidualMultiplier, kLogitsScaling, kAttentionCap, kLogitsCap,
    kWindowRopeBase, kPadToken, kPartialRotaryFactor, kTemperatureBeta, kMaxPositionEmbeddings,
    kGlobalHeadDim, kGlobalKvHeads, kKeysAsValues, kKvSharedLayers, kDoubleWideMlp, kPerLayerWidth,
    kExperts, kExpertsPerToken, kExpertWidth, kNormalizesExperts, kMoeLayerStep, kUsesQkNorm,
    kActivationAlpha, kActivationLimit, kUnrotatedTemperature, kUnrotatedTemperatureBeta,
    kUnrotatedTemperatureLength;

// What config.json says of hidden_size_per_layer_input's table: its rows, as many as vocab_size.
inline constexpr const char* kPerLayerVocabulary = "vocab_size_per_layer_input";

// What config.json of the family calls the field.
const char* hf_key(const Family& family, const Field& field);

// The field's value, or what stands for none: exact, since all integers are below 2^53; a flag is 0
// or 1.
double value(const Field& field, const DecoderConfig& config);
void set_value(const Field& field, double value, DecoderConfig& config);

}  // namespace longshore::models
