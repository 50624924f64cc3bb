// Reads, checks, copies and prints the values of config keys.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "longshore/trainer/config/keys.h"
#include "longshore/trainer/config/yaml.h"

namespace longshore::trainer {

// The values that the key may have, in words: "an integer from 1 to 4096", "auto, float32 or
// bfloat16", ...
std::string expected(const Key& key);

// The words that are valid, if the key takes some of a few; otherwise empty.
std::vector<std::string> choices(const Key& key);

// The first word of a value that is none of choices(); "" if all are, or if there are no choices.
std::string wrong_word(const Key& key, const Scalar& value);

// What a message says of a number that would count as 0, and is none; "" of any other value.
std::string too_near_zero(const Key& key, const Scalar& value);

// Sets the key's value. If `value` is not what the key expects, returns false and leaves `config`
// as it was. Relative paths are resolved against `relative_to`.
bool read_value(const Key& key, const Scalar& value, const std::filesystem::path& relative_to,
                Config& config);

// Whether read_value() would have accepted the value that the key has.
bool is_valid(const Key& key, const Config& config);

void copy_value(const Key& key, const Config& from, Config& to);

// The value as config.yml writes it. Reading that text gives the same value.
std::string value_text(const Key& key, const Config& config);

// The key, its value and where that was set: "head_dim = 65 (configs/x.yml:3)".
std::string described(const Config& config, const std::string& key);

}  // namespace longshore::trainer
