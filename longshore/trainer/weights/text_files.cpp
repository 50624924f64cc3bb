#include "longshore/trainer/weights/text_files.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/files/small_file.h"
#include "longshore/data/text/chat_template.h"
#include "longshore/data/tokenizers/sentencepiece_json.h"
#include "longshore/models/hf/json_reader.h"
#include "longshore/trainer/config/hf_config.h"

namespace longshore::trainer {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr const char* kGenerationConfig = "generation_config.json";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr const char* kTokenizerJson = "tokenizer.json";
constexpr const char* kSentencePiece = "tokenizer.model";
constexpr const char *kBos = "bos_token_id", *kEos = "eos_token_id";

using Ids = std::vector<int32_t>;

// Throws a DataError that names the file.
json parsed(const std::string& file, const std::string& text) {
  try {
    return models::parse_ordered_object(text);
  } catch (const DataError& error) {
    throw DataError(file + ": " + error.what());
  }
}

// Those that are not there yet, in their order; a file's list may have thousands.
void add_ids(const Ids& more, Ids& ids) {
  std::set<int32_t> there(ids.begin(), ids.end());
  for (int32_t id : more)
    if (id >= 0 && there.insert(id).second) ids.push_back(id);
}

// Under `key`, where there may be one, a list or null.
Ids ids_under(const json& object, const char* key, const std::string& file) {
  const json value = object.value(key, json());
  if (value.is_null()) return {};
  Ids found, ids;
  for (const json& id : value.is_array() ? value : json::array({value})) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<int32_t>::max())
      throw DataError(file + ": " + key + ": found " + shown(value) +
                      ", expected an id, or a list of them");
    found.push_back(id.get<int32_t>());
  }
  add_ids(found, ids);
  return ids;
}

// One as a number, as everybody writes it.
json text_of(const Ids& ids) {
  if (ids.empty()) return nullptr;
  return ids.size() == 1 ? json(ids[0]) : json(ids);
}

void add_text_ends(const data::Tokenizer& tokenizer,
                   const std::optional<data::ChatTemplate>& chat_template, TextEnds ends,
                   ModelFiles& files) {
  json config = parsed(kHfConfigFile, files.config);
  Ids bos = ids_under(config, kBos, kHfConfigFile), eos = ids_under(config, kEos, kHfConfigFile);
  if (ends == TextEnds::of_tokenizer) {
    bos.clear();
    eos.clear();
    add_ids({tokenizer.bos_id()}, bos);
    add_ids({tokenizer.eos_id()}, eos);
  } else if (!chat_template) {
    return;
  }
  const std::string* generation_text = files.find(kGenerationConfig);
  json generation = generation_text ? parsed(kGenerationConfig, *generation_text)
                                    : json{{kBos, text_of(bos)}, {kEos, text_of(eos)}};
  Ids generation_eos = ids_under(generation, kEos, kGenerationConfig);
  if (generation_eos.empty()) generation_eos = eos;
  if (chat_template) {
    const int32_t end = chat_template->end_of_turn(tokenizer).value_or(-1);
    add_ids({end}, eos);
    add_ids({end}, generation_eos);
  }
  config[kBos] = text_of(bos);
  config[kEos] = text_of(eos);
  generation[kEos] = text_of(generation_eos);
  files.config = json_text(config);
  files.set(kGenerationConfig, json_text(generation));
}

void add_tokenizer_json(const data::Tokenizer& tokenizer,
                        const std::optional<data::ChatTemplate>& chat_template, ModelFiles& files) {
  const std::string* model = files.find(kSentencePiece);
  if (!model) return;
  const std::vector<std::string> chat_tokens =
      chat_template ? chat_template->special_tokens(tokenizer) : std::vector<std::string>();
  const std::string text = data::tokenizer_json_of_sentencepiece(*model, chat_tokens);
  if (text.empty()) return;
  files.set(kTokenizerJson, text);
  const std::string* found = files.find(kTokenizerConfig);
  json config = found ? parsed(kTokenizerConfig, *found) : json::object();
  // Settings of the classes that make a tokenizer.json of their own.
  for (const char* key : {"legacy", "add_prefix_space", "add_dummy_prefix_space", "sp_model_kwargs",
                          "add_bos_token", "add_eos_token", "added_tokens_decoder", "auto_map",
                          "spaces_between_special_tokens", "tokenizer_class"})
    config.erase(key);
  config[data::kSentencepieceKey] = kSentencePiece;
  files.set(kTokenizerConfig, json_text(config));
}

// Where tokenizer_config.json lists added tokens, transformers takes those for all.
void add_extended_json(const data::Tokenizer& tokenizer, ModelFiles& files) {
  constexpr const char* kList = "added_tokens_decoder";
  const std::string& text = tokenizer.extended_json();
  files.set(kTokenizerJson, text);
  const std::string* found = files.find(kTokenizerConfig);
  if (!found) return;
  json config = parsed(kTokenizerConfig, *found);
  if (config.erase(kList) > 0) files.set(kTokenizerConfig, json_text(config));
}

void add_tokenizer_config(const data::Tokenizer& tokenizer, ModelFiles& files) {
  const std::string* found = files.find(kTokenizerConfig);
  json config = found ? parsed(kTokenizerConfig, *found) : json::object();
  if (config.contains("tokenizer_class")) return;
  // Other classes have normalisers of their own, whatever tokenizer.json says.
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  auto add_token = [&](const char* key, int32_t id) {
    const std::string token = tokenizer.spelling(id);
    if (!config.contains(key) && !token.empty()) config[key] = token;
  };
  add_token("bos_token", tokenizer.bos_id());
  add_token("eos_token", tokenizer.eos_id());
  if (!config.contains("clean_up_tokenization_spaces"))
    config["clean_up_tokenization_spaces"] = false;
  files.set(kTokenizerConfig, json_text(config));
}

// Whether tokenizer_config.json has the template as its only one, or as that named default.
bool is_default(const json& value, const std::string& source) {
  if (!value.is_array()) return value == source;
  return std::ranges::any_of(value, [&](const json& each) {
    return each.is_object() && each.value("name", json()) == "default" &&
           each.value("template", json()) == source;
  });
}

// A folder's own templates are there as they were.
void add_chat_template(const data::ChatTemplate& chat_template, ModelFiles& files) {
  constexpr const char *kFile = "chat_template.jinja", *kKey = "chat_template";
  const std::string* found = files.find(kTokenizerConfig);
  json config = found ? parsed(kTokenizerConfig, *found) : json();
  if (const std::string* there = files.find(kFile)) {
    if (*there == chat_template.source()) return;
  } else if (config.is_object() && is_default(config.value(kKey, json()), chat_template.source())) {
    return;
  }
  files.set(kFile, chat_template.source());
  if (config.is_object() && config.erase(kKey) > 0) files.set(kTokenizerConfig, json_text(config));
}

}  // namespace

void add_text_files(const data::Tokenizer& tokenizer,
                    const std::optional<data::ChatTemplate>& chat_template, TextEnds ends,
                    ModelFiles& files) {
  if (!files.config.empty()) add_text_ends(tokenizer, chat_template, ends, files);
  if (!tokenizer.extended_json().empty()) add_extended_json(tokenizer, files);
  if (tokenizer.is_sentencepiece()) add_tokenizer_json(tokenizer, chat_template, files);
  add_tokenizer_config(tokenizer, files);
  if (chat_template) add_chat_template(*chat_template, files);
}

TextEndIds text_end_ids(const ModelFiles& files) {
  TextEndIds ids;
  auto add = [&](const std::string& name, const std::string& text) {
    const json object = parsed(name, text);
    add_ids(ids_under(object, kBos, name), ids.bos);
    add_ids(ids_under(object, kEos, name), ids.eos);
  };
  if (const std::string* generation = files.find(kGenerationConfig))
    add(kGenerationConfig, *generation);
  add(kHfConfigFile, files.config);
  return ids;
}

Ids eos_ids(const fs::path& folder) {
  Ids ids;
  for (const char* name : {kGenerationConfig, kHfConfigFile}) {
    std::error_code error;
    const fs::path path = folder / name;
    if (!fs::exists(path, error)) continue;
    const json object = parsed(path_text(path), data::read_small_file(path, kMostParsedMib));
    add_ids(ids_under(object, kEos, path_text(path)), ids);
  }
  return ids;
}

}  // namespace longshore::trainer
