#include "longshore/models/hf/rope.h"

#include <optional>
#include <string>

#include "longshore/models/families/family.h"
#include "longshore/models/families/fields.h"
#include "longshore/models/hf/numbers.h"

namespace longshore::models {
namespace {

using nlohmann::json;

constexpr const char *kParameters = "rope_parameters", *kScaling = "rope_scaling",
                     *kOriginalLength = "original_max_position_embeddings";

// What scalings have in all: each reads some of it, and the rest changes nothing.
constexpr const char* kOfScalings[] = {
    "attention_factor", "beta_fast",       "beta_slow",
    "factor",           "finetuned",       "high_freq_factor",
    "long_factor",      "low_freq_factor", "max_position_embeddings",
    "mscale",           "mscale_all_dim",  "original_max_position_embeddings",
    "short_factor",     "truncate"};

// Whether layers with and without a window have rotations of their own.
bool is_by_kind(const Family& family) {
  return family.hf.window_rope_base > 0 || !family.hf.scales_windows;
}

Llama3RopeScaling read_llama3(JsonReader& rope) {
  const Llama3RopeScaling scaling{rope.positive("factor"), rope.positive("low_freq_factor"),
                                  rope.positive("high_freq_factor"),
                                  rope.positive(kOriginalLength)};
  if (scaling.low_freq_factor > scaling.high_freq_factor)
    rope.refuse("low_freq_factor",
                "at most high_freq_factor, " + shown(rope.at("high_freq_factor")));
  return scaling;
}

// `length`: what is scaled from where the keys do not say it.
YarnRopeScaling read_yarn(JsonReader& rope, std::optional<double> length) {
  constexpr double kBetaFast = 32, kBetaSlow = 1;
  const double factor = rope.positive("factor");
  double attention_factor = yarn_attention_factor(factor);
  if (rope.has("mscale") && rope.has("mscale_all_dim")) {
    const double more = attention_factor - 1;
    attention_factor =
        (1 + rope.positive("mscale") * more) / (1 + rope.positive("mscale_all_dim") * more);
  }
  const YarnRopeScaling scaling{
      .factor = factor,
      .original_max_position_embeddings = rope.positive(kOriginalLength, length),
      .beta_fast = rope.positive("beta_fast", kBetaFast),
      .beta_slow = rope.positive("beta_slow", kBetaSlow),
      .truncate = rope.flag("truncate", true),
      .attention_factor = rope.positive("attention_factor", attention_factor)};
  if (scaling.beta_slow >= scaling.beta_fast)
    rope.refuse("beta_slow", "less than beta_fast, which counts turns in a shorter time");
  return scaling;
}

RopeScaling read_scaling(JsonReader& rope, const HfKeys& keys, std::optional<double> length) {
  for (const char* key : kOfScalings) rope.has(key);
  std::vector<std::string> types{"default"};
  if (keys.scales_rope) types.insert(types.end(), {"linear", "llama3", "yarn", "proportional"});
  const std::string older = rope.word("type", types, types[0]);
  const std::string type = rope.word("rope_type", types, older);
  if (rope.has("type") && type != older) rope.refuse("type", "the same as rope_type");
  if (type == "linear") return LinearRopeScaling{rope.positive("factor")};
  if (type == "llama3") return read_llama3(rope);
  if (type == "yarn") return read_yarn(rope, length);
  if (type == "proportional") {
    const ProportionalRopeScaling scaling{.turned = rope.positive(kPartialRotaryFactor.hf_key, 1),
                                          .factor = rope.positive("factor", 1)};
    if (scaling.turned > 1) rope.refuse(kPartialRotaryFactor.hf_key, "at most 1");
    return scaling;
  }
  return {};
}

// One set of rotations.
struct Rotations {
  double base, partial_factor;
  RopeScaling scaling;

  bool operator==(const Rotations&) const = default;
};

class RopeReader {
 public:
  RopeReader(JsonReader& reader, DecoderConfig& config, std::vector<UnknownKey>& unknown)
      : reader_(reader), config_(config), unknown_(unknown) {}

  void read() {
    const HfKeys& keys = config_.family->hf;
    if (keys.window_rope_base > 0)
      config_.window_rope_base = reader_.positive(kWindowRopeBase.hf_key, keys.window_rope_base);
    const FamilyField* partial = find_field(*config_.family, kPartialRotaryFactor);
    Rotations said{.base = reader_.positive(kRopeBase.hf_key, keys.rope_base),
                   .partial_factor = 1,
                   .scaling = {}};
    if (partial)
      said.partial_factor = reader_.positive(kPartialRotaryFactor.hf_key, partial->otherwise);
    if (keys.needs_rope && !reader_.has(kScaling)) reader_.at(kParameters);
    if (reader_.has(kScaling)) said = read_older(said);
    take(reader_.has(kParameters) ? read_newer(said) : said);
    check_original_length();
  }

 private:
  // What the length is that scalings begin from where they do not say it.
  std::optional<double> trained_length() {
    constexpr const char* kKey = "max_position_embeddings";
    return reader_.has(kKey) ? std::optional(reader_.positive(kKey)) : std::nullopt;
  }

  // `said`: what counts where the object says nothing.
  Rotations read_rotations(const json& value, const std::string& key, const Rotations& said) {
    expect_object(value, key);
    JsonReader rope(value, key + ".");
    Rotations found{.base = rope.positive(kRopeBase.hf_key, said.base),
                    .partial_factor = said.partial_factor,
                    .scaling = read_scaling(rope, config_.family->hf, trained_length())};
    if (std::holds_alternative<YarnRopeScaling>(found.scaling) && found.base <= 1)
      rope.refuse(kRopeBase.hf_key, "more than 1, with yarn");
    if (find_field(*config_.family, kPartialRotaryFactor))
      found.partial_factor = rope.positive(kPartialRotaryFactor.hf_key, said.partial_factor);
    if (find_field(*config_.family, kTemperatureBeta)) {
      config_.temperature_beta = rope.number(kTemperatureBeta.hf_key);
      if (config_.temperature_beta < 0) rope.refuse(kTemperatureBeta.hf_key, "0 or more");
    }
    for (UnknownKey& one : rope.unknown_keys()) unknown_.push_back(std::move(one));
    return found;
  }

  Rotations read_older(const Rotations& said) {
    const json& value = reader_.at(kScaling);
    Rotations found = read_rotations(value, kScaling, said);
    if (found.base != said.base)
      JsonReader(value, std::string(kScaling) + ".")
          .refuse(kRopeBase.hf_key, "the same as rope_theta beside it");
    return found;
  }

  Rotations read_newer(const Rotations& older) {
    const Rotations unscaled{
        .base = older.base, .partial_factor = older.partial_factor, .scaling = {}};
    const json& value = reader_.at(kParameters);
    expect_object(value, kParameters);
    const Rotations found = is_by_kind(*config_.family)
                                ? read_kinds(value, unscaled)
                                : read_rotations(value, kParameters, unscaled);
    // Which of them counts differs between versions of transformers.
    if (reader_.has(kRopeBase.hf_key) && found.base != older.base)
      reader_.refuse(kRopeBase.hf_key, "the same as in rope_parameters");
    if (reader_.has(kScaling) && found.scaling != older.scaling)
      reader_.refuse(kScaling, "the same as in rope_parameters");
    if (reader_.has(kPartialRotaryFactor.hf_key) && found.partial_factor != older.partial_factor)
      reader_.refuse(kPartialRotaryFactor.hf_key, "the same as in rope_parameters");
    return found;
  }

  // Layers with a window have rotations of their own.
  Rotations read_kinds(const json& value, const Rotations& said) {
    const HfKeys& keys = config_.family->hf;
    const std::string prefix = std::string(kParameters) + ".", windows = prefix + kSlidingAttention;
    JsonReader kinds(value, prefix);
    // Some releases write the defaults beside the kinds, and none reads them there.
    for (const char* key : {kRopeBase.hf_key, "rope_type"}) kinds.has(key);
    const Rotations all = read_rotations(kinds.at(kFullAttention), prefix + kFullAttention, said);
    const Rotations otherwise{.base = keys.window_rope_base > 0 ? keys.window_rope_base : all.base,
                              .partial_factor = said.partial_factor,
                              .scaling = {}};
    const json& of_windows = kinds.at(kSlidingAttention);
    const Rotations local = read_rotations(of_windows, windows, otherwise);
    if (local.scaling != RopeScaling{})
      JsonReader(of_windows, windows + ".").refuse("rope_type", "default");
    config_.window_rope_base = local.base;
    for (UnknownKey& one : kinds.unknown_keys()) unknown_.push_back(std::move(one));
    return all;
  }

  void take(const Rotations& found) {
    config_.rope_base = found.base;
    config_.rope_scaling = found.scaling;
    config_.partial_rotary_factor = found.partial_factor;
    if (!config_.family->hf.scales_windows) {
      const double local = config_.window_rope_base.value_or(found.base);
      config_.window_rope_base.reset();
      if (local != found.base || found.scaling != RopeScaling{}) config_.window_rope_base = local;
    }
    if (found.partial_factor > 1 || rotary_dim(config_, true) < 2 ||
        rotary_dim(config_, true) % 2 != 0)
      reader_.refuse(kPartialRotaryFactor.hf_key, "at most 1, and an even part of head_dim, " +
                                                      std::to_string(config_.head_dim));
    if (config_.temperature_beta > 0 && !original_length(found.scaling))
      reader_.refuse(kParameters, std::string("a rope_type with ") + kOriginalLength +
                                      ", which llama_4_scaling_beta counts in");
  }

  // transformers 5 prefers what stands beside rope_parameters, 4 does not read it.
  void check_original_length() {
    const std::optional<double> length = original_length(config_.rope_scaling);
    for (const char* key : {kOriginalLength, "initial_context_length"})
      if (reader_.has(key) && length && reader_.positive(key) != *length)
        reader_.refuse(key, "the same as in RoPE's parameters");
  }

  JsonReader& reader_;
  DecoderConfig& config_;
  std::vector<UnknownKey>& unknown_;
};

json written(std::monostate) { return {{"rope_type", "default"}}; }
json written(const LinearRopeScaling& s) { return {{"rope_type", "linear"}, {"factor", s.factor}}; }
json written(const Llama3RopeScaling& s) {
  return {{"rope_type", "llama3"},
          {"factor", s.factor},
          {"low_freq_factor", s.low_freq_factor},
          {"high_freq_factor", s.high_freq_factor},
          {kOriginalLength, json_number(s.original_max_position_embeddings)}};
}
json written(const ProportionalRopeScaling& s) {
  json keys = {{"rope_type", "proportional"}, {kPartialRotaryFactor.hf_key, s.turned}};
  if (s.factor != 1) keys["factor"] = s.factor;
  return keys;
}
json written(const YarnRopeScaling& s) {
  json keys = {{"rope_type", "yarn"},
               {"factor", s.factor},
               {kOriginalLength, json_number(s.original_max_position_embeddings)},
               {"beta_fast", s.beta_fast},
               {"beta_slow", s.beta_slow},
               {"attention_factor", s.attention_factor}};
  // Releases that do not know the key truncate.
  if (!s.truncate) keys["truncate"] = false;
  return keys;
}

}  // namespace

void read_rope(JsonReader& reader, DecoderConfig& config, std::vector<UnknownKey>& unknown) {
  RopeReader(reader, config, unknown).read();
}

void write_rope(const DecoderConfig& c, const Family& family, json& object) {
  json rope = std::visit([](const auto& scaling) { return written(scaling); }, c.rope_scaling);
  const bool has_older = family.hf.has_older_rope;
  if (has_older) object[kRopeBase.hf_key] = c.rope_base;
  if (find_field(family, kTemperatureBeta)) rope[kTemperatureBeta.hf_key] = c.temperature_beta;
  if (has_older && c.rope_scaling != RopeScaling{}) object[kScaling] = rope;
  rope[kRopeBase.hf_key] = c.rope_base;
  if (find_field(family, kPartialRotaryFactor)) {
    object[kPartialRotaryFactor.hf_key] = c.partial_rotary_factor;
    rope[kPartialRotaryFactor.hf_key] = c.partial_rotary_factor;
  }
  if (!is_by_kind(family)) {
    object[kParameters] = rope;
    return;
  }
  const double local = c.window_rope_base.value_or(c.rope_base);
  if (has_older && family.hf.window_rope_base > 0) object[kWindowRopeBase.hf_key] = local;
  object[kParameters] = {
      {kFullAttention, rope},
      {kSlidingAttention, {{"rope_type", "default"}, {kRopeBase.hf_key, local}}}};
}

std::vector<std::string> rope_beyond(const DecoderConfig& c, const Family& family) {
  std::vector<std::string> found;
  auto check = [&](bool is_beyond, const std::string& what) {
    if (is_beyond) found.push_back(what);
  };
  const bool has_local = family.hf.window_rope_base > 0;
  const bool has_rope_base = family.hf.scales_windows || c.window_rope_base != c.rope_base;
  check(c.window_rope_base && !has_local && has_rope_base, kWindowRopeBase.hf_key);
  check(!c.window_rope_base && is_by_kind(family) && c.rope_scaling != RopeScaling{},
        "rope_scaling of layers with a window");
  check(c.partial_rotary_factor != 1 && !find_field(family, kPartialRotaryFactor),
        kPartialRotaryFactor.hf_key);
  check(c.rope_scaling != RopeScaling{} && !family.hf.scales_rope, kScaling);
  const bool has_temperature = find_field(family, kTemperatureBeta) != nullptr;
  check(c.temperature_beta != 0 && !has_temperature, kTemperatureBeta.hf_key);
  check(has_temperature && !original_length(c.rope_scaling),
        std::string("rope_parameters without ") + kOriginalLength);
  return found;
}

}  // namespace longshore::models
