#include "longshore/trainer/weights/read_floats.h"

#include <algorithm>

#include "longshore/base/bfloat16.h"
#include "longshore/base/error.h"
#include "longshore/trainer/weights/saved_state.h"

namespace longshore::trainer {

std::vector<float> read_floats(const offload::ArgumentReader& arguments, const std::string& name,
                               const models::Type& type, int64_t offset_bytes) {
  std::vector<float> values(static_cast<size_t>(type.shape.count()));
  if (type.dtype == models::Dtype::float32) {
    arguments.read_part(name, offset_bytes, values.data(), type.bytes());
    return values;
  }
  if (type.dtype != models::Dtype::bfloat16)
    throw InternalError(name + ": found " + models::text(type) + ", expected float32 or bfloat16");
  std::vector<bfloat16> narrow(values.size());
  arguments.read_part(name, offset_bytes, narrow.data(), type.bytes());
  std::ranges::transform(narrow, values.begin(), [](bfloat16 value) { return to_float(value); });
  return values;
}

std::vector<float> read_weights(const offload::ParameterLayout& layout,
                                const offload::Parameter& parameter,
                                const offload::ArgumentReader& arguments,
                                offload::ElementRange part) {
  const offload::Bucket& bucket = layout.bucket(layout.by_name.at(parameter.name));
  const offload::Copy copy = weights_copy(bucket);
  const models::Dtype dtype = offload::dtype(bucket, copy);
  std::vector<float> values;
  for (const models::SplitRun& run : models::SplitRuns(parameter.type.shape, parameter.weight.split)
                                         .of_tensor(part.first, part.count)) {
    std::vector<float> some =
        read_floats(arguments, argument_name(bucket, copy), {{run.count}, dtype},
                    offset_in_whole(bucket, parameter, run) * models::size_bytes(dtype));
    if (values.empty())
      values = std::move(some);
    else
      values.insert(values.end(), some.begin(), some.end());
  }
  return values;
}

}  // namespace longshore::trainer
