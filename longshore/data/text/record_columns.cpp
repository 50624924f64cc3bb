#include "longshore/data/text/record_columns.h"

#include <algorithm>
#include <set>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "longshore/base/nearest.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"

namespace longshore::data {

using nlohmann::ordered_json;

RecordColumns::RecordColumns(std::string_view record, std::span<const std::string> known,
                             std::span<const std::string> named)
    : known_(known) {
  constexpr size_t kMaxUnknown = 8;
  columns_ = ordered_json_object(record, [&](const std::string& name) {
    const bool wants = std::ranges::find(known, name) != known.end() ||
                       std::ranges::find(named, name) != named.end();
    if (!wants && unknown_.size() < kMaxUnknown) unknown_.push_back(name);
    return wants;
  });
  for (auto column = columns_.begin(); column != columns_.end();)
    if (column->is_null()) {
      has_nulls_ = true;
      column = columns_.erase(column);
    } else {
      ++column;
    }
}

bool RecordColumns::has_all(std::span<const std::string> names) const {
  return std::ranges::all_of(names, [&](const std::string& name) { return has(name); });
}

ordered_json RecordColumns::take(const std::string& name) {
  const auto found = columns_.find(name);
  return found == columns_.end() ? ordered_json() : std::move(*found);
}

std::string RecordColumns::text(const std::string& name) const {
  const ordered_json value = columns_.value(name, ordered_json(""));
  if (!value.is_string()) throw DataError(name + ": expected a string, found " + kind_of(value));
  return value.get<std::string>();
}

std::string RecordColumns::trained(const std::string& name) const {
  std::string value = text(name);
  if (value.empty()) throw DataError(name + ": found nothing, expected text to learn");
  return value;
}

std::string RecordColumns::found() const {
  std::set<std::string> names;
  for (const auto& column : columns_.items()) names.insert(column.key());
  return join(std::vector<std::string>(names.begin(), names.end()));
}

std::string RecordColumns::nearest_to(const std::string& name) const {
  const std::string closest = nearest(name, unknown_);
  return nearest_help(closest.empty() ? "" : in_quotes(closest));
}

void RecordColumns::refuse(const std::string& expected) const {
  std::string found_names;
  for (const std::string& name : unknown_)
    found_names += (found_names.empty() ? "the columns " : ", ") + in_quotes(name);
  std::string closest;
  for (const std::string& name : unknown_)
    if (closest.empty()) closest = nearest(name, known_);
  const bool may_be_named = closest.empty() && !unknown_.empty();
  throw DataError(
      "expected " + expected + "; found " +
      (!found_names.empty() ? found_names
       : has_nulls_         ? "nothing but null"
       : !columns_.empty()  ? "nothing but " + found()
                            : "an empty object") +
      nearest_help(may_be_named ? "train_data_columns, which names what to read" : closest));
}

}  // namespace longshore::data
