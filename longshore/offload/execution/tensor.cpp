#include "longshore/offload/execution/tensor.h"

#include <cstring>

#include "longshore/base/error.h"
#include "longshore/offload/memory/alignment.h"

namespace longshore::offload {

Tensor::Storage::Storage(Runtime& runtime, const models::Type& type, const Placement& placement)
    : runtime(runtime), type(type), placement(placement) {
  check(placement, type.shape.rank());
  memory = runtime.backend->allocate(placement.kind, align_up(type.bytes()));
  runtime.ledger.take(placement.kind, Category::batch, align_up(type.bytes()));
}

Tensor::Storage::~Storage() {
  runtime.backend->free(placement.kind, memory);
  runtime.ledger.give(placement.kind, Category::batch, align_up(type.bytes()));
}

Tensor::Tensor(Runtime& runtime, const models::Type& type, const Placement& placement)
    : storage_(std::make_shared<const Storage>(runtime, type, placement)) {}

void Tensor::write(std::span<const std::byte> bytes) const {
  if (static_cast<int64_t>(bytes.size()) != type().bytes())
    throw UsageError("a tensor of " + std::to_string(type().bytes()) + " bytes is given " +
                     std::to_string(bytes.size()));
  runtime().backend->write(placement().kind, memory(), bytes.data(), type().bytes());
}

std::vector<std::byte> Tensor::read() const {
  std::vector<std::byte> bytes(static_cast<size_t>(type().bytes()));
  runtime().backend->read(placement().kind, bytes.data(), memory(), type().bytes());
  return bytes;
}

Tensor make_tensor(Runtime& runtime, const models::Shape& shape, std::span<const float> values,
                   const Placement& placement) {
  Tensor tensor(runtime, {shape}, placement);
  tensor.write(std::as_bytes(values));
  return tensor;
}

std::vector<float> values(const Tensor& tensor) {
  if (tensor.type().dtype != models::Dtype::float32)
    throw UsageError("values: expected a tensor of f32, found " + models::text(tensor.type()));
  std::vector<std::byte> bytes = tensor.read();
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Tensor put(const Tensor& tensor, const Placement& placement) {
  if (placement == tensor.placement()) return tensor;
  Tensor there(tensor.runtime(), tensor.type(), placement);
  bool from_device = tensor.placement().kind == MemoryKind::device;
  Lane lane = from_device ? Lane::device_to_host : Lane::host_to_device;
  Backend& backend = *tensor.runtime().backend;
  backend.copy(lane, {tensor.memory(), tensor.type()}, {there.memory(), there.type()});
  backend.synchronize();
  return there;
}

}  // namespace longshore::offload
