#include "offload/virtual_backend.h"

#include <limits>

namespace longshore::offload {
namespace {

class VirtualBackend : public Backend {
 public:
  explicit VirtualBackend(models::Target target) : target_(target) {}

  models::Target target() const override { return target_; }
  std::byte* allocate(MemoryKind, int64_t) override { return nullptr; }
  void free(MemoryKind, std::byte*) override {}
  int64_t available_bytes(MemoryKind) override { return std::numeric_limits<int64_t>::max(); }
  void run(const models::Op&, const models::KernelCall&) override {}
  void copy(Lane, const models::Ref&, const models::Ref&) override {}
  void record(Lane, int) override {}
  void wait(Lane, int) override {}
  void synchronize() override {}
  void write(MemoryKind, std::byte*, const void*, int64_t) override {}
  void read(MemoryKind, void*, const std::byte*, int64_t) override {}

 private:
  models::Target target_;
};

}  // namespace

std::unique_ptr<Backend> make_virtual_backend(models::Target target) {
  return std::make_unique<VirtualBackend>(target);
}

}  // namespace longshore::offload
