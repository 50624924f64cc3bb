#include "longshore/trainer/weights/source_model.h"

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/models/hf/config.h"
#include "longshore/trainer/weights/adapter.h"
#include "longshore/trainer/weights/chat_template.h"
#include "longshore/trainer/weights/hf_folder.h"
#include "longshore/trainer/weights/text_files.h"

namespace longshore::trainer {

namespace fs = std::filesystem;

SourceModel::SourceModel(const ModelSource& source)
    : folder_(source.from), adapter_(source.adapter) {
  models::Images images = source.images;
  if (source.run.empty()) {
    files_ = read_model_files(folder_, folder_, images);
  } else {
    read_run(source.run);
    images = run_->images;
  }
  config_ = read_hf_config(folder_, source.unknown_keys, images);
  models::DecoderConfig& decoder = config_.decoder;
  if (added_rows_.end() > decoder.vocabulary) {
    decoder.vocabulary = added_rows_.end();
    files_.config = models::with_hf_vocabulary(files_.config, added_rows_.end());
  }
  if (!adapter_.empty()) decoder.lora = read_adapter_config(adapter_, adapter_base(decoder));
  decoder.lora.dropout = 0;  // of training alone
  models::Model model = models::decoder(decoder);
  if (frozen_ && !adapter_.empty())
    quantize_weights(model, [&](const std::string&) { return frozen_; });
  layout_ = offload::lay_out(model);
}

// The folder that a run's adapter is for knows nothing of the run.
void SourceModel::read_run(const fs::path& run) {
  run_ = weights_of_run(run);
  folder_ = run_->model;
  adapter_ = run_->adapter;
  frozen_ = run_->frozen;
  added_rows_ = run_->added_rows;
  files_ = read_model_files(run_->model, run_->tokenizer, run_->images);
  if (run_->turned_as) files_.config = models::with_hf_rope(files_.config, *run_->turned_as);
  const Text read = text();
  if (!read.tokenizer) return;
  try {
    add_text_files(*read.tokenizer, read.chat_template, TextEnds::of_model, files_);
  } catch (const DataError& error) {  // which begins with a file's name
    throw DataError(path_text(run) + ": " + error.what());
  }
}

SourceModel::Text SourceModel::text() const {
  const fs::path& from = run_ ? run_->tokenizer : folder_;
  if (fs::is_directory(from) && !data::tokenizer_file(from)) return {};
  Text text;
  if (run_) {
    text.tokenizer = std::make_unique<data::Tokenizer>(from, run_->add_tokens);
    text.chat_template = find_chat_template(*run_, run_->chat_template, *text.tokenizer);
  } else {
    text.tokenizer = std::make_unique<data::Tokenizer>(from);
    text.chat_template = data::find_chat_template({}, from, *text.tokenizer);
  }
  return text;
}

StoredWeights SourceModel::weights() const {
  StoredWeights weights(folder_, config_.decoder, added_rows_);
  check_tensors(folder_, layout_, weights, config_.decoder);
  return weights;
}

}  // namespace longshore::trainer
