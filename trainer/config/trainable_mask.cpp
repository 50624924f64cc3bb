#include "trainer/config/trainable_mask.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "base/text.h"
#include "data/pcre2.h"
#include "models/lora.h"
#include "trainer/config/yaml.h"

namespace longshore::trainer {
namespace {

const std::string kKey = "trainable_parameters_mask";

// Names have about fifty characters. An expression that takes more steps on one backtracks
// exponentially.
constexpr uint32_t kMaxMatchSteps = 100'000;
constexpr uint32_t kMaxHeapKib = 1024;

class Expression {
 public:
  Expression(const Config& config, const std::string& text)
      : where_(location(config, kKey) + ": found " + excerpt(text)) {
    int error = 0;
    size_t at = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                              PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr));
    if (!code_)
      refuse("expected a regular expression; at byte " + std::to_string(at) + ": " +
             data::pcre2_message(error));
    context_.reset(pcre2_match_context_create(nullptr));
    result_.reset(pcre2_match_data_create(1, nullptr));
    if (!context_ || !result_) throw std::bad_alloc();
    pcre2_set_match_limit(context_.get(), kMaxMatchSteps);
    pcre2_set_heap_limit(context_.get(), kMaxHeapKib);
  }

  bool is_found_in(const std::string& name) const {
    int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0,
                            0, result_.get(), context_.get());
    if (found >= 0) return true;
    if (found != PCRE2_ERROR_NOMATCH)
      refuse("expected an expression that is quick to match; on " + name + ": " +
             data::pcre2_message(found));
    return false;
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw ConfigError(where_ + ", " + what);
  }

 private:
  std::string where_;
  data::Pcre2Code code_;
  data::Pcre2MatchContext context_;
  data::Pcre2MatchData result_;
};

std::vector<std::string> names_of(const models::Model& model) {
  std::vector<std::string> names;
  for (const models::Stage& stage : model.stages)
    for (size_t layer = 0; layer < stage.layers.size(); ++layer) {
      const models::Program& program = stage.program(layer);
      for (models::ValueId id : program.inputs_from(models::Source::weight))
        names.push_back(weight_name(stage, static_cast<int>(layer), program[id]));
    }
  return names;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (auto begin = text.begin(); begin != text.end();) {
    begin = std::find_if(begin, text.end(), is_word);
    auto end = std::find_if_not(begin, text.end(), is_word);
    if (begin != end) words.emplace_back(begin, end);
    begin = end;
  }
  return words;
}

// What is near to the first word of the expression that is in no name: "q_proj"; "" if nothing is.
std::string nearest_word(const std::string& expression, const std::vector<std::string>& names) {
  std::set<std::string> seen;
  for (const std::string& name : names)
    for (std::string& word : words_of(name)) seen.insert(std::move(word));
  std::vector<std::string> candidates(seen.begin(), seen.end());
  for (const std::string& word : words_of(expression))
    if (std::string close = seen.contains(word) ? "" : nearest(word, candidates); !close.empty())
      return close;
  return "";
}

}  // namespace

void apply_mask(const Config& config, models::Model& model) {
  if (config.trainable_parameters_mask.empty()) return;
  const std::vector<std::string> names = names_of(model);
  std::set<std::string> found;
  for (const std::string& text : config.trainable_parameters_mask) {
    Expression expression(config, text);
    bool is_found = false;
    for (const std::string& name : names)
      if (expression.is_found_in(name)) {
        is_found = true;
        found.insert(name);
      }
    if (is_found) continue;
    std::vector<std::string> examples(names.begin(),
                                      names.begin() + std::min<ptrdiff_t>(4, std::ssize(names)));
    expression.refuse("expected what is found in the name of a parameter, as in " + join(examples) +
                      nearest_help(nearest_word(text, names)));
  }
  set_trainable(model, [&](const std::string& name) {
    return models::is_lora_weight(name) || found.contains(name);
  });
}

}  // namespace longshore::trainer
