// A RolloutExample is an answer that a policy has drawn, with how good it was, for policy
// gradients.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace longshore::data {

// Numbers beside what is learnt: `advantages` is one number for all, or has one for each token, as
// the others have where they are not empty.
struct RolloutValues {
  std::vector<float> advantages, old_log_probs, reference_log_probs;
};

// Token ids as the policy drew them.
struct DrawnTokens {
  std::vector<int32_t> prompt, completion;
  std::vector<uint8_t> completion_mask;  // 1 or 0 for each token of the completion; of all it is 1
};

// All throw a DataError, without file and line, that begins with `name`: on anything but a list of
// such numbers. Tables of text have them as JSON.
std::vector<int32_t> read_token_ids(const nlohmann::ordered_json& value, const std::string& name);
std::vector<uint8_t> read_mask(const nlohmann::ordered_json& value, const std::string& name);
std::vector<float> read_values(const nlohmann::ordered_json& value, const std::string& name);
// The same, where one number is a list of one.
std::vector<float> read_advantages(const nlohmann::ordered_json& value, const std::string& name);
// The same, where each is a log-probability: at most 0, but for rounding. There is one at least.
std::vector<float> read_log_probs(const nlohmann::ordered_json& value, const std::string& name);

// Those of a document's tokens, each with its advantage, the drawing policy's log-probability, NaN
// where there is none, and if there is one the reference's: of the tokens at `places` in turn;
// others have zeros. Throws a DataError, without file and line, where there are other numbers than
// places.
std::vector<float> beside_tokens(const RolloutValues& values, std::span<const int64_t> places,
                                 int64_t tokens);

// The names of these numbers.
std::vector<std::string> names_beside_tokens(const RolloutValues& values);

}  // namespace longshore::data
