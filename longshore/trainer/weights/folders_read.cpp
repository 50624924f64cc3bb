#include "longshore/trainer/weights/folders_read.h"

#include <utility>

#include "longshore/trainer/weights/adapter.h"
#include "longshore/trainer/weights/added_tokens.h"
#include "longshore/trainer/weights/stored_formats.h"

namespace longshore::trainer {

Config with_folders_read(Config config) {
  return with_stored_formats(with_adapter(with_added_tokens(std::move(config))));
}

}  // namespace longshore::trainer
