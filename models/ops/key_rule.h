// Which keys a query of one row of the batch sees, for kernels on a GPU: see
// models/ops/attention.h.
#pragma once

#include <cstdint>

#include "base/device.h"

namespace longshore::models {

struct KeyRule {
  int64_t window;           // 0: none
  const int32_t* segments;  // [T], or null
  const int32_t* prefix;    // a number, or null

  LONGSHORE_DEVICE bool sees(int64_t query, int64_t key) const {
    if (segments && segments[query] != segments[key]) return false;
    if (prefix && query < *prefix && key < *prefix) return true;
    return key <= query && (window == 0 || query - key < window);
  }
};

}  // namespace longshore::models
