// Judges the keys of config.json that the code of a model's family never reads: those of other
// families, of tokenizers and generation, and of what others than transformers have written.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace longshore::models {

enum class ForeignKey { changes_nothing, changes_results, unknown };

struct ForeignKeyFinding {
  ForeignKey meaning = ForeignKey::unknown;
  std::string expected = {};  // with changes_results: the values that change nothing, and why
};

// null says nothing under any key.
ForeignKeyFinding judge_foreign_key(const std::string& key, const nlohmann::json& value);

// All that are known, for help with spelling.
std::vector<std::string> foreign_keys();

}  // namespace longshore::models
