// named_eval_datasets() gives each set of validation text the name by which its loss is shown.
#pragma once

#include <string>
#include <vector>

#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

inline constexpr size_t kMaxSetNameBytes = 64;

// Whether it can stand in a line of the console and as a key of JSON.
bool is_set_name(const std::string& name);

// The sets of eval_dataset_path. One that has no name is called by its file's, without what stands
// after the dot ("b" of data/b.jsonl.gz), but for one alone, which needs none. Throws a ConfigError
// where two have the same name, or a file's name is none.
std::vector<EvalDataset> named_eval_datasets(const Config& config);

}  // namespace longshore::trainer
