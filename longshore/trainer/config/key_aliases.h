// Translates the names that other trainers have for the config's keys.
#pragma once

#include <map>
#include <span>
#include <string>

namespace longshore::trainer {

// The keys here by their names in MaxText, torchtitan, transformers' Trainer, peft, TRL, axolotl,
// LLaMA-Factory and Hugging Face's config.json: "moment_dtype" by "mu_dtype".
const std::map<std::string, std::string>& keys_by_other_name();

// The key here for such a name, with or without its section ("training.seq_len"), or for one of
// ours with a section ("training.steps"); "" where there is none.
std::string key_for_other_name(const std::string& name);

// How the values of such a name translate into those of its key here; "" where they stay as they
// are.
std::string remark_on_values(const std::string& name);

// The setting of another key that is meant by a value that `key` does not take, as in
// gradient_clipping=1.0; "" where there is none.
std::string setting_for_value(const std::string& key, const std::string& value);

// The one of the choices that others call `value`: "float32" for "fp32", or in other capitals; ""
// where there is none.
std::string value_for_other_name(const std::string& value, std::span<const std::string> choices);

// Why there is no key for such a name: what it would choose is always so, or is not offered; ""
// where that is not known.
std::string reason_for_no_key(const std::string& name);

}  // namespace longshore::trainer
