#include "longshore/trainer/config/config_text.h"

#include <algorithm>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "longshore/trainer/config/key_values.h"
#include "longshore/trainer/config/keys.h"

namespace longshore::trainer {
namespace {

std::string section_title(Section section) {
  switch (section) {
    case Section::run:
      return "run";
    case Section::model:
      return "model";
    case Section::training:
      return "training";
    case Section::batch:
      return "batch";
    case Section::parallelism:
      return "parallelism";
    case Section::remat:
      return "remat";
    case Section::offload:
      return "offload";
    case Section::optimizer:
      return "optimizer";
    case Section::data:
      return "data";
    case Section::report:
      return "report";
  }
  throw InternalError("section without a title");
}

std::string help_line(const Key& key, const Config& config) {
  std::string name =
      "  " + key.name + " = " + (is_valid(key, config) ? value_text(key, config) : "...");
  constexpr size_t kColumn = 48;
  name.resize(std::max(name.size() + 1, kColumn), ' ');
  return name + key.doc + " [" + expected(key) + "]\n";
}

// Calls `at_section(title)` and `at_key(key)` in the table's order.
template <class AtSection, class AtKey>
void for_each_key(AtSection at_section, AtKey at_key) {
  const Key* previous = nullptr;
  for (const Key& key : config_keys()) {
    if (previous == nullptr || previous->section != key.section) {
      at_section(section_title(key.section));
    }
    at_key(key);
    previous = &key;
  }
}

}  // namespace

std::string resolved_text(const Config& config) {
  std::string text;
  for_each_key(
      [&](const std::string& title) { text += (text.empty() ? "# " : "\n# ") + title + "\n"; },
      [&](const Key& key) {
        if (!is_valid(key, config)) return;  // the model does not use this key
        text +=
            key.name + ": " + value_text(key, config) + "  # " + origin(config, key.name) + "\n";
      });
  return text;
}

void write_resolved(const Config& config, const std::filesystem::path& file) {
  write_file(file, resolved_text(config), Links::refused);
}

std::string config_help() {
  const Config defaults;
  std::string text = "Config keys, as `key: value` in a file or key=value on the command line:\n";
  text +=
      "  base_config             (files only) the config this one starts from, beside it or in "
      "configs/\n";
  for_each_key([&](const std::string& title) { text += "\n" + title + "\n"; },
               [&](const Key& key) { text += help_line(key, defaults); });
  return text;
}

std::string config_help(const Config& config, std::span<const std::string> keys) {
  std::string text;
  for (const std::string& key : keys) text += help_line(*find_key(key), config);
  return text;
}

}  // namespace longshore::trainer
