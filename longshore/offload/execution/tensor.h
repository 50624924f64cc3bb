// Tensors with a placement. Only put() moves values from one memory to another, and no op takes
// values of several memory kinds.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "longshore/models/ir/types.h"
#include "longshore/offload/backends/backend.h"
#include "longshore/offload/plan/placement.h"

namespace longshore::offload {

// A backend, and the account of its memory.
struct Runtime {
  std::unique_ptr<Backend> backend;
  Ledger ledger;
};

// A handle: copies share the memory, which is freed with the last of them. The runtime must outlive
// all copies.
class Tensor {
 public:
  Tensor() = default;
  // The contents are undefined. Throws UsageError for a placement that does not suit the type, and
  // OutOfMemoryError where the memory cannot be had.
  Tensor(Runtime& runtime, const models::Type& type, const Placement& placement = {});

  explicit operator bool() const { return storage_ != nullptr; }
  const models::Type& type() const { return storage_->type; }
  const Placement& placement() const { return storage_->placement; }
  std::byte* memory() const { return storage_->memory; }
  Runtime& runtime() const { return storage_->runtime; }

  // Copy from and to ordinary memory, exactly type().bytes(). write() throws UsageError for another
  // number of bytes.
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

// Tensors of float32 values. values() throws UsageError for another dtype.
Tensor make_tensor(Runtime& runtime, const models::Shape& shape, std::span<const float> values,
                   const Placement& placement = {});
std::vector<float> values(const Tensor& tensor);

// The same values in another place. A tensor that is there already is returned itself.
Tensor put(const Tensor& tensor, const Placement& placement);

}  // namespace longshore::offload
