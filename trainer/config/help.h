// What --help of the programs that read a config says below their options.
#pragma once

#include <string>

namespace longshore::trainer {

std::string config_footer();  // config keys, remat policies
std::string policies_help();

}  // namespace longshore::trainer
