#include "longshore/trainer/config/key_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/trainer/config/eval_datasets.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using Items = std::vector<std::string>;

constexpr size_t kMaxItemBytes = 256;

template <class... Cases>
struct Overload : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overload(Cases...) -> Overload<Cases...>;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The text of a number without the underscores between its digits, as in YAML 1.1's 500_000.
std::string without_underscores(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool separates = text[i] == '_' && i > 0 && is_digit(text[i - 1]) &&
                           i + 1 < text.size() && is_digit(text[i + 1]);
    if (!separates) digits += text[i];
  }
  return digits;
}

// Reads a YAML number in decimal. std::from_chars does not accept a leading plus.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const std::string digits = without_underscores(text);
  T value{};
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  // It leaves the value alone where that is nearer to 0 than any number, as well as where there is
  // none so large. The former must not pass for 0.
  if constexpr (std::is_floating_point_v<T>)
    if (error == std::errc::result_out_of_range) {
      value = std::strtod(digits.c_str(), nullptr);
      if (value == 0)
        value = std::copysign(std::numeric_limits<T>::denorm_min(), digits[0] == '-' ? -1 : 1);
      if (std::isfinite(value)) error = std::errc();
    }
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// Also one that is written as a float, such as 12.0 or 1e3.
std::optional<int64_t> parse_integer(std::string_view text) {
  if (auto value = parse_number<int64_t>(text)) return value;
  constexpr double kMaxExact = 9007199254740992;  // 2^53
  const std::optional<double> number = parse_number<double>(text);
  if (!number || std::abs(*number) > kMaxExact || *number != std::floor(*number))
    return std::nullopt;
  return static_cast<int64_t>(*number);
}

bool is_plain(const Scalar& value) { return value.style == ScalarStyle::plain; }

std::string number_text(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

// --- which values keys accept

bool accepts(const IntegerKey& key, int64_t value) {
  return (value >= key.low && value <= key.high) || value == key.also;
}

// Kernels take float32.
bool counts_as_zero(double value) {
  return value != 0 && std::abs(value) < std::numeric_limits<float>::min();
}

bool accepts(const NumberKey& key, double value) {
  bool above = key.low_end == End::included ? value >= key.low : value > key.low;
  // What float32 rounds to the end is at the end.
  bool below =
      key.high_end == End::included ? value <= key.high : static_cast<float>(value) < key.high;
  return std::isfinite(value) && !counts_as_zero(value) && ((above && below) || value == key.also);
}

// File names and C interfaces end at a NUL.
bool accepts_text(const std::string& text) { return text.find('\0') == std::string::npos; }

bool accepts(const ListKey& key, const Items& items) {
  if (!key.all.empty() && items == Items{key.all}) return true;
  auto accepts_item = [&](const std::string& item) {
    return !item.empty() && item.size() <= kMaxItemBytes && accepts_text(item) &&
           (key.choices.empty() || std::ranges::find(key.choices, item) != key.choices.end());
  };
  bool is_set = key.choices.empty() || std::set(items.begin(), items.end()).size() == items.size();
  return items.size() <= key.most && std::ranges::all_of(items, accepts_item) && is_set;
}

bool accepts(const LabelKey& key, const Items& actions) {
  return (actions.size() == 1 || actions.size() == 2) &&
         std::ranges::all_of(actions, [&](const std::string& action) {
           return std::ranges::find(key.actions, action) != key.actions.end();
         });
}

bool accepts(const DatasetKey&, const std::vector<DatasetFile>& files) {
  return files.size() <= kMaxItems && std::ranges::all_of(files, [](const DatasetFile& file) {
           bool is_weight = !file.weight || (std::isfinite(*file.weight) && *file.weight > 0 &&
                                             !counts_as_zero(*file.weight));
           return !file.path.empty() && accepts_text(file.path.native()) && is_weight;
         });
}

bool accepts(const EvalDatasetKey&, const std::vector<EvalDataset>& sets) {
  return sets.size() <= kMaxItems && std::ranges::all_of(sets, [](const EvalDataset& set) {
           return !set.path.empty() && accepts_text(set.path.native()) &&
                  (set.name.empty() || is_set_name(set.name));
         });
}

// --- the same in words

std::string joined_by_or(const std::vector<std::string>& words) {
  std::string text = words.front();
  for (size_t i = 1; i < words.size(); ++i)
    text += (i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

std::string expected_value(const IntegerKey& key) {
  std::string range = "an integer ";
  if (key.high == std::numeric_limits<int64_t>::max())
    range += "of at least " + std::to_string(key.low);
  else
    range += "from " + std::to_string(key.low) + " to " + std::to_string(key.high);
  return key.also ? range + ", or " + (key.also_word ? key.also_word : std::to_string(*key.also))
                  : range;
}

std::string expected_value(const NumberKey& key) {
  std::string low = number_text(key.low);
  if (std::isinf(key.high))
    return key.low_end == End::included ? "a number of at least " + low : "a number above " + low;
  std::string high = number_text(key.high);
  if (key.low_end == End::excluded && key.high_end == End::included)
    return "a number above " + low + " and at most " + high;
  std::string range =
      "a number from " + low + " to " + (key.high_end == End::excluded ? "below " : "") + high;
  return key.also ? range + ", or " + number_text(*key.also) : range;
}

std::string expected_value(const FlagKey&) { return "true or false"; }

std::string expected_value(const TextKey&) { return "text"; }

std::string expected_value(const PathKey&) { return "a path"; }

std::string expected_value(const ListKey& key) {
  std::string text = "a list, [a, b], of ";
  if (!key.choices.empty())
    return text + key.items + " out of " + join(key.choices) + ", each once" +
           (key.all.empty() ? "" : ", or " + key.all);
  return text + "at most " + std::to_string(key.most) + " " + key.items + ", each of at most " +
         std::to_string(kMaxItemBytes) + " bytes";
}

std::string expected_value(const DatasetKey&) {
  return "a path, or a list of at most " + std::to_string(kMaxItems) +
         ": [a.jsonl:0.7, b.tokens:0.3], with or without weights above 0";
}

std::string expected_value(const EvalDatasetKey&) {
  return "a path, or a list of at most " + std::to_string(kMaxItems) +
         ": [wiki=a.jsonl, code=b.tokens], with or without printable names of at most " +
         std::to_string(kMaxSetNameBytes) + " bytes";
}

std::string expected_value(const ChoiceKey& key) { return joined_by_or(key.names); }

std::string expected_value(const LabelKey& key) {
  return joined_by_or(key.actions) +
         ", or two of them: of the first offload_layers layers, and of the others";
}

// --- reading

Items split_at_commas(const std::string& text) {
  Items items;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    std::string item = text.substr(begin, end - begin);
    item.erase(0, item.find_first_not_of(' '));
    item.erase(item.find_last_not_of(' ') + 1);
    items.push_back(item);
    begin = end + 1;
  }
  return items;
}

std::optional<Items> items_of(const Scalar& value) {
  if (value.list) return value.list;
  if (value.style == ScalarStyle::quoted) return Items{value.text};
  return value.text.starts_with('[') ? parse_list(value.text) : split_at_commas(value.text);
}

fs::path resolved(const std::string& path, const fs::path& relative_to) {
  return (relative_to / path).lexically_normal();
}

// Reads "a.jsonl:0.7" or "a.jsonl". What follows the colon belongs to the path if it is no number.
std::optional<DatasetFile> dataset_file(const std::string& item, const fs::path& relative_to) {
  size_t colon = item.rfind(':');
  std::optional<double> weight;
  if (colon != std::string::npos) weight = parse_number<double>(item.substr(colon + 1));
  std::string path = weight ? item.substr(0, colon) : item;
  if (path.empty()) return std::nullopt;
  return DatasetFile{resolved(path, relative_to), weight};
}

// Reads "wiki=a.jsonl" or "a.jsonl". What stands before the sign belongs to the path if it has a
// slash.
std::optional<EvalDataset> eval_dataset(const std::string& item, const fs::path& relative_to) {
  const size_t sign = item.find('=');
  const bool has_name = sign != std::string::npos && item.find('/') > sign;
  const std::string path = has_name ? item.substr(sign + 1) : item;
  if (path.empty() || (has_name && sign == 0)) return std::nullopt;
  return EvalDataset{has_name ? item.substr(0, sign) : "", resolved(path, relative_to)};
}

// Of each item what `parse` makes of it; nothing where it makes nothing of one.
template <class Entry>
std::optional<std::vector<Entry>> entries(const Scalar& value, const fs::path& relative_to,
                                          std::optional<Entry> (*parse)(const std::string&,
                                                                        const fs::path&)) {
  std::vector<Entry> entries;
  if (!value.list && value.text.empty()) return entries;
  std::optional<Items> items = items_of(value);
  if (!items) return std::nullopt;
  for (const std::string& item : *items) {
    std::optional<Entry> entry = parse(item, relative_to);
    if (!entry) return std::nullopt;
    entries.push_back(*std::move(entry));
  }
  return entries;
}

bool read(const IntegerKey& key, const Scalar& value, Config& config) {
  std::optional<int64_t> number = is_plain(value) ? parse_integer(value.text) : std::nullopt;
  if (key.also_word && number == key.also) return false;
  if (key.also_word && value.text == key.also_word) number = key.also;
  if (!number || !accepts(key, *number)) return false;
  key.place.set(config, *number);
  return true;
}

bool read(const NumberKey& key, const Scalar& value, Config& config) {
  std::optional<double> number = is_plain(value) ? parse_number<double>(value.text) : std::nullopt;
  if (!number || !accepts(key, *number)) return false;
  key.place.set(config, *number);
  return true;
}

bool read(const FlagKey& key, const Scalar& value, Config& config) {
  const std::string& text = value.text;
  bool is_true = text == "true" || text == "True" || text == "TRUE";
  bool is_false = text == "false" || text == "False" || text == "FALSE";
  if (value.style != ScalarStyle::plain || (!is_true && !is_false)) return false;
  key.place.set(config, is_true);
  return true;
}

bool read(const TextKey& key, const Scalar& value, const fs::path& relative_to, Config& config) {
  const std::string& text = value.text;
  if (!accepts_text(text)) return false;
  key.place.set(config,
                key.may_be_path && is_path(text) ? resolved(text, relative_to).string() : text);
  return true;
}

bool read(const PathKey& key, const Scalar& value, const fs::path& relative_to, Config& config) {
  if (!accepts_text(value.text)) return false;
  key.place.set(config, value.text.empty() ? fs::path() : resolved(value.text, relative_to));
  return true;
}

bool read(const ListKey& key, const Scalar& value, Config& config) {
  std::optional<Items> items = items_of(value);
  if (!items || !accepts(key, *items)) return false;
  key.place.set(config, *std::move(items));
  return true;
}

bool read(const DatasetKey& key, const Scalar& value, const fs::path& relative_to, Config& config) {
  std::optional<std::vector<DatasetFile>> files = entries(value, relative_to, dataset_file);
  if (!files || !accepts(key, *files)) return false;
  key.place.set(config, *std::move(files));
  return true;
}

bool read(const EvalDatasetKey& key, const Scalar& value, const fs::path& relative_to,
          Config& config) {
  std::optional<std::vector<EvalDataset>> sets = entries(value, relative_to, eval_dataset);
  if (!sets || !accepts(key, *sets)) return false;
  key.place.set(config, *std::move(sets));
  return true;
}

bool read(const ChoiceKey& key, const Scalar& value, Config& config) {
  auto name = std::ranges::find(key.names, value.text);
  if (name == key.names.end()) return false;
  key.set(config, static_cast<size_t>(name - key.names.begin()));
  return true;
}

bool read(const LabelKey& key, const std::string& label, const Scalar& value, Config& config) {
  if (!value.list && value.text.empty()) {
    config.label_actions.erase(label);
    return true;
  }
  std::optional<Items> items = items_of(value);
  if (!items || !accepts(key, *items)) return false;
  config.label_actions[label] = *std::move(items);
  return true;
}

bool takes_lists(const Key& key) {
  return std::holds_alternative<ListKey>(key.kind) || std::holds_alternative<LabelKey>(key.kind) ||
         std::holds_alternative<DatasetKey>(key.kind) ||
         std::holds_alternative<EvalDatasetKey>(key.kind);
}

// --- printing

std::string list_text(const Items& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + yaml_quoted(item);
  return "[" + text + "]";
}

std::string dataset_text(const std::vector<DatasetFile>& files) {
  Items items;
  for (const DatasetFile& file : files)
    items.push_back(file.path.native() + (file.weight ? ":" + number_text(*file.weight) : ""));
  return list_text(items);
}

std::string eval_dataset_text(const std::vector<EvalDataset>& sets) {
  Items items;
  for (const EvalDataset& set : sets)
    items.push_back((set.name.empty() ? "" : set.name + "=") + set.path.native());
  return list_text(items);
}

std::string actions_text(const std::string& label, const Config& config) {
  auto actions = config.label_actions.find(label);
  if (actions == config.label_actions.end()) return "\"\"";
  return actions->second.size() == 1 ? actions->second[0] : "[" + join(actions->second) + "]";
}

}  // namespace

std::string expected(const Key& key) {
  return std::visit([](const auto& kind) { return expected_value(kind); }, key.kind);
}

std::vector<std::string> choices(const Key& key) {
  return std::visit(Overload{
                        [](const ChoiceKey& kind) { return kind.names; },
                        [](const ListKey& kind) { return kind.choices; },
                        [](const LabelKey& kind) { return kind.actions; },
                        [](const FlagKey&) {
                          return Items{"true", "false"};
                        },
                        [](const auto&) { return Items(); },
                    },
                    key.kind);
}

std::string wrong_word(const Key& key, const Scalar& value) {
  const std::vector<std::string> valid = choices(key);
  if (valid.empty()) return "";
  for (const std::string& word :
       takes_lists(key) ? items_of(value).value_or(Items()) : Items{value.text})
    if (std::ranges::find(valid, word) == valid.end()) return word;
  return "";
}

std::string too_near_zero(const Key& key, const Scalar& value) {
  std::vector<double> numbers;
  if (const auto* kind = std::get_if<NumberKey>(&key.kind); kind && kind->low <= 0) {
    if (is_plain(value)) numbers.push_back(parse_number<double>(value.text).value_or(0));
  } else if (std::holds_alternative<DatasetKey>(key.kind)) {
    for (const DatasetFile& file :
         entries(value, "", dataset_file).value_or(std::vector<DatasetFile>()))
      numbers.push_back(file.weight.value_or(0));
  }
  return std::ranges::any_of(numbers, counts_as_zero)
             ? "; in float32 the least number above 0 is " +
                   number_text(std::numeric_limits<float>::min())
             : "";
}

bool read_value(const Key& key, const Scalar& value, const fs::path& relative_to, Config& config) {
  if (value.style == ScalarStyle::null || (value.list && !takes_lists(key))) return false;
  return std::visit(
      Overload{
          [&](const TextKey& kind) { return read(kind, value, relative_to, config); },
          [&](const PathKey& kind) { return read(kind, value, relative_to, config); },
          [&](const DatasetKey& kind) { return read(kind, value, relative_to, config); },
          [&](const EvalDatasetKey& kind) { return read(kind, value, relative_to, config); },
          [&](const LabelKey& kind) { return read(kind, key.name, value, config); },
          [&](const auto& kind) { return read(kind, value, config); },
      },
      key.kind);
}

bool is_valid(const Key& key, const Config& config) {
  return std::visit(
      Overload{
          [&](const FlagKey&) { return true; },
          [&](const TextKey& kind) { return accepts_text(kind.place.get(config)); },
          [&](const PathKey& kind) { return accepts_text(kind.place.get(config).native()); },
          [&](const ChoiceKey& kind) { return kind.get(config) < kind.names.size(); },
          [&](const LabelKey& kind) {
            auto actions = config.label_actions.find(key.name);
            return actions == config.label_actions.end() || accepts(kind, actions->second);
          },
          [&](const auto& kind) { return accepts(kind, kind.place.get(config)); },
      },
      key.kind);
}

void copy_value(const Key& key, const Config& from, Config& to) {
  std::visit(Overload{
                 [&](const ChoiceKey& kind) { kind.set(to, kind.get(from)); },
                 [&](const LabelKey&) {
                   to.label_actions.erase(key.name);
                   auto actions = from.label_actions.find(key.name);
                   if (actions != from.label_actions.end()) to.label_actions.insert(*actions);
                 },
                 [&](const auto& kind) { kind.place.set(to, kind.place.get(from)); },
             },
             key.kind);
}

std::string value_text(const Key& key, const Config& config) {
  return std::visit(
      Overload{
          [&](const IntegerKey& kind) {
            const int64_t number = kind.place.get(config);
            return kind.also_word && number == kind.also ? kind.also_word : std::to_string(number);
          },
          [&](const NumberKey& kind) { return number_text(kind.place.get(config)); },
          [&](const FlagKey& kind) {
            return std::string(kind.place.get(config) ? "true" : "false");
          },
          [&](const TextKey& kind) { return yaml_quoted(kind.place.get(config)); },
          [&](const PathKey& kind) { return yaml_quoted(kind.place.get(config).native()); },
          [&](const ListKey& kind) { return list_text(kind.place.get(config)); },
          [&](const DatasetKey& kind) { return dataset_text(kind.place.get(config)); },
          [&](const EvalDatasetKey& kind) { return eval_dataset_text(kind.place.get(config)); },
          [&](const ChoiceKey& kind) { return kind.names.at(kind.get(config)); },
          [&](const LabelKey&) { return actions_text(key.name, config); },
      },
      key.kind);
}

std::string described(const Config& config, const std::string& key) {
  return key + " = " + excerpt(value_text(*find_key(key), config)) + " (" + origin(config, key) +
         ")";
}

}  // namespace longshore::trainer
