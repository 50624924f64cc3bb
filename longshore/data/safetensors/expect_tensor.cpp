#include "longshore/data/safetensors/expect_tensor.h"

#include "longshore/base/error.h"
#include "longshore/base/printable.h"

namespace longshore::data {

void expect_tensor(bool is_so, const SafetensorsInfo& found, const std::string& expected) {
  if (!is_so)
    throw DataError("tensor " + in_quotes(found.name) + ": found " + name(found.dtype) + " " +
                    shape_text(found.shape) + ", expected " + expected);
}

}  // namespace longshore::data
