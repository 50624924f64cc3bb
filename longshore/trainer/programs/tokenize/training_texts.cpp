#include "longshore/trainer/programs/tokenize/training_texts.h"

#include <utility>
#include <variant>

#include "longshore/base/error.h"
#include "longshore/data/files/text_format.h"
#include "longshore/data/text/example.h"
#include "longshore/data/text/line_reader.h"
#include "longshore/data/text/open_records.h"

namespace longshore {
namespace {

// The last one first.
std::vector<std::string> texts_of(data::Example example) {
  if (auto* text = std::get_if<data::TextExample>(&example)) return {std::move(text->text)};
  if (auto* pair = std::get_if<data::CompletionExample>(&example))
    return {pair->prompt + pair->completion};
  std::vector<std::string> texts;
  const auto& messages = std::get<data::ChatExample>(example).conversation.messages;
  for (auto message = messages.rbegin(); message != messages.rend(); ++message)
    texts.push_back(data::text_of(*message));
  return texts;
}

}  // namespace

void TrainingTexts::open(const std::filesystem::path& path) {
  path_ = path;
  records_.reset();
  paragraphs_.reset();
  if (data::has_records(path))
    records_ = data::open_records(path, data::columns_read());
  else
    paragraphs_ = std::make_unique<data::DocumentReader>(path);
}

bool TrainingTexts::next(std::string& text) {
  while (!next_of_file(text)) {
    if (paths_.empty()) return false;
    open(paths_.front());
    paths_ = paths_.subspan(1);
  }
  return true;
}

bool TrainingTexts::next_of_file(std::string& text) {
  if (paragraphs_) return paragraphs_->next(text);
  while (waiting_.empty()) {
    std::string record;
    if (!records_ || !records_->next(record)) return false;
    try {
      // With a template questions and answers are without Alpaca's words around them.
      waiting_ = texts_of(data::read_example(record, {.has_template = true}).example);
    } catch (const DataError& error) {
      throw DataError(data::at_line(path_, records_->line_number(), error.what()));
    }
  }
  text = std::move(waiting_.back());
  waiting_.pop_back();
  return true;
}

}  // namespace longshore
