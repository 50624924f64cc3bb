// The table of config keys, from which reading, validation, help and writing of configs follow.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// Upper bounds that manifests of checkpoints have to observe as well.
inline constexpr int64_t kMaxBatch = 1 << 16;  // of rows in a micro-batch, micro-batches in a step
inline constexpr int64_t kMaxSteps = 1'000'000'000;

inline constexpr size_t kMaxItems = 100;  // of most lists

// The part of the config that a key belongs to. A file of configs/models may set only the keys of
// `model`.
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

// Where a key's value stands: in the config itself, or in the model or tower that it describes. Of
// a value that may be unset, `unset` is what texts say instead.
template <class T>
class Place {
 public:
  Place(T Config::*own) : own_(own) {}
  Place(T models::DecoderConfig::*of_model) : of_model_(of_model) {}
  Place(T models::VisionConfig::*of_vision) : of_vision_(of_vision) {}
  Place(std::optional<T> Config::*optional, T unset) : optional_(optional), unset_(unset) {}
  Place(std::optional<T> models::DecoderConfig::*optional, T unset)
      : optional_of_model_(optional), unset_(unset) {}

  T get(const Config& config) const {
    if (optional_) return (config.*optional_).value_or(unset_);
    if (optional_of_model_) return (config.model.*optional_of_model_).value_or(unset_);
    if (of_vision_) return config.vision.*of_vision_;
    return own_ ? config.*own_ : config.model.*of_model_;
  }
  void set(Config& config, T value) const {
    if (optional_)
      config.*optional_ = or_none(std::move(value));
    else if (optional_of_model_)
      config.model.*optional_of_model_ = or_none(std::move(value));
    else if (of_vision_)
      config.vision.*of_vision_ = std::move(value);
    else
      (own_ ? config.*own_ : config.model.*of_model_) = std::move(value);
  }

 private:
  std::optional<T> or_none(T value) const {
    return value == unset_ ? std::optional<T>() : std::optional<T>(std::move(value));
  }

  T Config::*own_ = nullptr;
  T models::DecoderConfig::*of_model_ = nullptr;
  T models::VisionConfig::*of_vision_ = nullptr;
  std::optional<T> Config::*optional_ = nullptr;
  std::optional<T> models::DecoderConfig::*optional_of_model_ = nullptr;
  T unset_ = {};
};

struct IntegerKey {
  Place<int64_t> place;
  int64_t low;
  int64_t high;
  std::optional<int64_t> also = std::nullopt;  // a valid value outside the range
  const char* also_word = nullptr;             // by which that is read and shown
};

enum class End { included, excluded };

struct NumberKey {
  Place<double> place;
  double low;
  End low_end = End::included;
  double high = std::numeric_limits<double>::infinity();
  End high_end = End::included;
  std::optional<double> also = std::nullopt;  // a valid value outside the range
};

struct FlagKey {
  Place<bool> place;
};

struct TextKey {
  Place<std::string> place;
  bool may_be_path = false;  // where is_path() says so
};

struct PathKey {
  Place<std::filesystem::path> place;
};

// A YAML list, or on one line items separated by commas.
struct ListKey {
  Place<std::vector<std::string>> place;
  std::string items;                 // what the items are: "regular expressions"
  std::vector<std::string> choices;  // the valid items, each at most once; empty: any text
  std::string all;                   // a word in place of choices; empty: there is none
  size_t most = kMaxItems;           // of items that are any text
};

// Files, each optionally followed by a colon and its weight. A YAML list, or on one line files
// separated by commas.
struct DatasetKey {
  Place<std::vector<DatasetFile>> place;
};

// Sets of files, each optionally behind its name and an equals sign: "wiki=a.jsonl". Written as a
// DatasetKey's.
struct EvalDatasetKey {
  Place<std::vector<EvalDataset>> place;
};

// One of the enumerators of an enum. Their names are in the enum's order.
struct ChoiceKey {
  std::vector<std::string> names;
  size_t (*get)(const Config&);
  void (*set)(Config&, size_t);
};

// The actions of the label that has the key's name. Config::label_actions holds them.
struct LabelKey {
  std::vector<std::string> actions = {"remat", "device", "offload"};
};

struct Key {
  std::string name;
  Section section;
  std::variant<IntegerKey, NumberKey, FlagKey, TextKey, PathKey, ListKey, DatasetKey,
               EvalDatasetKey, ChoiceKey, LabelKey>
      kind;
  std::string doc;
};

// In the order in which help and config.yml show them.
const std::vector<Key>& config_keys();

// Returns nullptr if there is no such key.
const Key* find_key(const std::string& name);

}  // namespace longshore::trainer
