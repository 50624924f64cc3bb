// Where the running program lies, and what is built or installed with it: PREFIX/bin has programs,
// PREFIX/lib the libraries that they load, and an installed PREFIX/share/longshore what they read.
#pragma once

#include <filesystem>
#include <string>

namespace longshore {

// PREFIX/bin; in a build folder also build/tests. Empty where the system does not say.
std::filesystem::path program_folder();

// PREFIX/lib/NAME, whether or not it is there.
std::filesystem::path library_path(const std::string& name);

// PREFIX/share/longshore/NAME, whether or not it is there.
std::filesystem::path installed_path(const std::string& name);

// Whether the program was installed, so that scripts/ of a source tree are of no use to its user.
bool is_installed();

}  // namespace longshore
