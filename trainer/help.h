// What --help of the programs that read a config says below their options.
#pragma once

#include <string>

namespace longshore::trainer {

std::string config_footer();  // config keys, remat policies

}  // namespace longshore::trainer
