#include "trainer/weights/token_ids.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "data/chat_template.h"
#include "models/hf/config.h"

namespace longshore::trainer {
namespace {

using nlohmann::json;

json id_or_null(int32_t id) { return id >= 0 ? json(id) : json(nullptr); }

// One as a number, as everybody writes it.
json end_of_generation(const data::Tokenizer& tokenizer, const std::string& chat_template) {
  if (chat_template.empty()) return id_or_null(tokenizer.eos_id());
  const int32_t end_of_turn = data::ChatTemplate::named(chat_template).end_of_turn(tokenizer);
  if (tokenizer.eos_id() < 0 || tokenizer.eos_id() == end_of_turn) return end_of_turn;
  return {tokenizer.eos_id(), end_of_turn};
}

}  // namespace

void add_token_ids(const data::Tokenizer& tokenizer, const std::string& chat_template,
                   ModelFiles& files) {
  files.config = models::with_hf_token_ids(files.config, tokenizer.bos_id(), tokenizer.eos_id());
  constexpr const char* kFile = "generation_config.json";
  if (std::ranges::find(files.tokenizer, kFile, &SmallFile::name) != files.tokenizer.end()) return;
  const json object{{"bos_token_id", id_or_null(tokenizer.bos_id())},
                    {"eos_token_id", end_of_generation(tokenizer, chat_template)}};
  files.tokenizer.push_back({kFile, object.dump(2) + "\n"});
}

}  // namespace longshore::trainer
