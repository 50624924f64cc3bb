// A Log takes the lines in which functions that work for a while report what they do.
#pragma once

#include <functional>
#include <string>

namespace longshore {

// Gets one line at a time, without a line break at its end.
using Log = std::function<void(const std::string& line)>;

}  // namespace longshore
