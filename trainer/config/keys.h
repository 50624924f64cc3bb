// The table of config keys: the one source for reading, validation, help and writing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/yaml.h"

namespace longshore::trainer {

// Bounds of sizes that manifests are held to as well.
inline constexpr int64_t kMaxBatch = 1 << 16;  // rows of a micro-batch, micro-batches of a step
inline constexpr int64_t kMaxSteps = 1'000'000'000;

// A file of configs/models may set the keys of `model` only.
enum class Section {
  run,
  model,
  training,
  batch,
  parallelism,
  remat,
  offload,
  optimizer,
  data,
  report
};

struct IntegerKey {
  int64_t Config::*member;
  int64_t low;
  int64_t high;
  std::optional<int64_t> also = std::nullopt;  // one more valid value, with a meaning of its own
};

enum class End { included, excluded };

struct NumberKey {
  double Config::*member;
  double low;
  End low_end = End::included;
  double high = std::numeric_limits<double>::infinity();
  End high_end = End::included;
  std::optional<double> also = std::nullopt;
};

struct FlagKey {
  bool Config::*member;
};

struct TextKey {
  std::string Config::*member;
  bool may_be_path = false;  // then it is one that has a slash or ends in .yml
};

struct PathKey {
  std::filesystem::path Config::*member;
};

// A YAML list; in one line also items with commas between.
struct ListKey {
  std::vector<std::string> Config::*member;
  std::string items;                 // what they are: "regular expressions"
  std::vector<std::string> choices;  // each at most once; empty: any text
};

// Files, each with or without a weight behind a colon. A YAML list; in one line also with commas
// between.
struct DatasetKey {
  std::vector<DatasetFile> Config::*member;
};

// One name for each enumerator, in the enum's order.
struct ChoiceKey {
  std::vector<std::string> names;
  size_t (*get)(const Config&);
  void (*set)(Config&, size_t);
};

// The fate of the label with the key's name, in Config::label_fates.
struct LabelKey {
  std::vector<std::string> fates = {"remat", "device", "offload"};
};

struct Key {
  std::string name;
  Section section;
  std::variant<IntegerKey, NumberKey, FlagKey, TextKey, PathKey, ListKey, DatasetKey, ChoiceKey,
               LabelKey>
      kind;
  std::string doc;
};

// In the order in which help and config.yml show them.
const std::vector<Key>& config_keys();

// nullptr when there is no such key.
const Key* find_key(const std::string& name);

// "an integer from 1 to 4096", "auto, float32 or bfloat16", ...
std::string expected(const Key& key);

// The valid words, where there are only a few; otherwise empty.
std::vector<std::string> choices(const Key& key);

// Sets the key, or returns false and leaves `config` as it was when `value` is not what the key
// expects. `relative_to` is where relative paths start.
bool read_value(const Key& key, const Scalar& value, const std::filesystem::path& relative_to,
                Config& config);

// Whether the key's value is one that read_value() would have accepted.
bool is_valid(const Key& key, const Config& config);

void copy_value(const Key& key, const Config& from, Config& to);

// The value as config.yml writes it; read back it is the same value.
std::string value_text(const Key& key, const Config& config);

// With where it is from: "head_dim = 65 (configs/x.yml:3)".
std::string described(const Config& config, const std::string& key);

}  // namespace longshore::trainer
