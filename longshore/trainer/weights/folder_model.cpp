#include "longshore/trainer/weights/folder_model.h"

#include <algorithm>

#include "longshore/trainer/weights/adapter.h"
#include "longshore/trainer/weights/hf_folder.h"

namespace longshore::trainer {

models::DecoderConfig read_folder_model(const std::filesystem::path& folder,
                                        const std::filesystem::path& adapter,
                                        models::UnknownKeys unknown, models::Images images,
                                        const AddedRows& added_rows) {
  models::DecoderConfig model = read_hf_config(folder, unknown, images).decoder;
  model.vocabulary = std::max(model.vocabulary, added_rows.end());
  if (!adapter.empty()) model.lora = read_adapter_config(adapter, adapter_base(model));
  model.lora.dropout = 0;  // of training alone
  return model;
}

}  // namespace longshore::trainer
