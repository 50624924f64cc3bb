#include "trainer/weights/folders_read.h"

#include <utility>

#include "trainer/weights/adapter.h"
#include "trainer/weights/added_tokens.h"
#include "trainer/weights/stored_formats.h"

namespace longshore::trainer {

Config with_folders_read(Config config) {
  return with_stored_formats(with_adapter(with_added_tokens(std::move(config))));
}

}  // namespace longshore::trainer
