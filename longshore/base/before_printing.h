// What is done before anything is printed: what is drawn on the terminal's last line makes way.
#pragma once

#include <atomic>

namespace longshore {

// Set by what draws there; nullptr where nothing does.
inline std::atomic<void (*)()> before_printing = nullptr;

inline void prepare_to_print() {
  if (void (*const prepare)() = before_printing.load()) prepare();
}

}  // namespace longshore
