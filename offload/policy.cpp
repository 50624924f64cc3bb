#include "offload/policy.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"

namespace longshore::offload {
namespace {

// Labels that stand for the same values in different models: a layer emits one of the lists whole.
struct Group {
  Fate fate;
  std::vector<std::vector<std::string>> alternatives;
};

struct Row {
  PolicyInfo info;
  Fate otherwise;
  std::vector<Group> groups;
};

const std::vector<std::vector<std::string>> kQkv{{"query_proj", "key_proj", "value_proj"},
                                                 {"qkv_proj"}};
constexpr const char* kCarry = "decoder_layer_input";

const std::vector<Row>& table() {
  static const std::vector<Row> rows{
      {{"none", "keep every value the backward pass reads; compute nothing again"}, Fate::keep, {}},
      {{"full", "keep the layer's input only; compute the rest again"}, Fate::remat, {}},
      {{"save_qkv_proj", "keep the layer's input and query, key and value"},
       Fate::remat,
       {{Fate::keep, kQkv}}},
      {{"custom", "keep the layer's input and the labels set to `device`"}, Fate::remat, {}},
  };
  return rows;
}

bool emits(std::span<const std::string> labels, const std::string& label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

[[noreturn]] void refuse_label(const std::string& what, const std::string& label,
                               std::span<const std::string> labels) {
  std::string close = nearest(label, labels);
  throw ConfigError(what + ": the model emits no label '" + label + "'; it emits " + join(labels) +
                    (close.empty() ? "" : ". Nearest: " + close));
}

}  // namespace

Policy keep_all() { return {.name = "none", .otherwise = Fate::keep, .fates = {}}; }

std::span<const PolicyInfo> policies() {
  static const std::vector<PolicyInfo> infos = [] {
    std::vector<PolicyInfo> infos;
    for (const Row& row : table()) infos.push_back(row.info);
    return infos;
  }();
  return infos;
}

Policy make_policy(const std::string& name, const std::map<std::string, Fate>& custom,
                   std::span<const std::string> labels) {
  auto row = std::find_if(table().begin(), table().end(),
                          [&](const Row& row) { return row.info.name == name; });
  if (row == table().end()) {
    std::vector<std::string> names;
    for (const PolicyInfo& info : policies()) names.push_back(info.name);
    std::string close = nearest(name, names);
    throw ConfigError("remat_policy: found '" + name + "', expected one of " + join(names) +
                      (close.empty() ? "" : ". Nearest: " + close));
  }
  if (name != "custom" && !custom.empty())
    throw ConfigError(custom.begin()->first + ": is read only with remat_policy: custom, found " +
                      "remat_policy: " + name);

  Policy policy{.name = name, .otherwise = row->otherwise, .fates = custom};
  for (const auto& [label, fate] : custom) {
    if (!emits(labels, label)) refuse_label(label, label, labels);
    if (label == kCarry && fate == Fate::remat)
      throw ConfigError(std::string(kCarry) +
                        ": remat is not possible: all else is computed again from it");
  }
  for (const Group& group : row->groups) {
    auto match = std::find_if(group.alternatives.begin(), group.alternatives.end(),
                              [&](const std::vector<std::string>& alternative) {
                                return std::all_of(
                                    alternative.begin(), alternative.end(),
                                    [&](const std::string& label) { return emits(labels, label); });
                              });
    if (match == group.alternatives.end())
      refuse_label("remat_policy: " + name, group.alternatives[0][0], labels);
    for (const std::string& label : *match) policy.fates[label] = group.fate;
  }
  return policy;
}

}  // namespace longshore::offload
