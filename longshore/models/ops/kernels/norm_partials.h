// norm_partials() says in how many parts a GPU sums up the gradient of a norm's weight.
#pragma once

#include <cstdint>

namespace longshore::models {

// Ranges of rows whose shares of the weight's gradient are summed apart, then together in order:
// enough for every GPU to be busy, and not so many that their memory traffic counts.
inline int64_t norm_partials(int64_t rows) { return rows < 512 ? rows : 512; }

}  // namespace longshore::models
