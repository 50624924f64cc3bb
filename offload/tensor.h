// Tensors that know where they live. They stay there: nothing made on the host goes to the device
// unless put() says so, and no op takes values of several memory kinds.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "models/types.h"
#include "offload/backend.h"
#include "offload/placement.h"

namespace longshore::offload {

// A backend, and what is taken of its memory.
struct Runtime {
  std::unique_ptr<Backend> backend;
  Ledger ledger;
};

// A handle: copies share the memory, which goes with the last of them. The runtime must outlive it.
class Tensor {
 public:
  Tensor() = default;
  // Undefined contents. Throws PlanError for a placement that does not suit, or without memory.
  Tensor(Runtime& runtime, const models::Type& type, const Placement& placement = {});

  explicit operator bool() const { return storage_ != nullptr; }
  const models::Type& type() const { return storage_->type; }
  const Placement& placement() const { return storage_->placement; }
  std::byte* memory() const { return storage_->memory; }
  Runtime& runtime() const { return storage_->runtime; }

  // From and to ordinary memory of exactly its bytes.
  void write(std::span<const std::byte> bytes) const;
  std::vector<std::byte> read() const;

 private:
  struct Storage {
    Storage(Runtime& runtime, const models::Type& type, const Placement& placement);
    ~Storage();
    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;

    Runtime& runtime;
    models::Type type;
    Placement placement;
    std::byte* memory;
  };
  std::shared_ptr<const Storage> storage_;
};

// float32 values.
Tensor make_tensor(Runtime& runtime, const models::Shape& shape, std::span<const float> values,
                   const Placement& placement = {});
std::vector<float> values(const Tensor& tensor);

// The same values elsewhere; a tensor that is there already is returned as it is.
Tensor put(const Tensor& tensor, const Placement& placement);

}  // namespace longshore::offload
