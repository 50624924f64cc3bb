// with_folders_read() completes a config by what is in the folders that it names.
#pragma once

#include "longshore/trainer/config/config.h"

namespace longshore::trainer {

// with_added_tokens(), then with_adapter(), then with_stored_formats(). Throws what they throw.
Config with_folders_read(Config config);

}  // namespace longshore::trainer
