// The CPU's backend, watching what kernels and copies do to memory: before each, outputs and
// workspace are filled with NaNs; after it, every byte of every allocation that is neither output
// nor workspace must be as it was. Lanes run one after the other.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "offload/backend.h"

namespace longshore::offload {

class WatchingBackend : public Backend {
 public:
  WatchingBackend();

  struct Workspace {
    int64_t declared_bytes = 0, touched_bytes = 0;  // up to the last byte that was written
  };
  // Of every call, by op.
  const std::map<std::string, std::vector<Workspace>>& workspaces() const { return workspaces_; }
  const std::vector<std::string>& faults() const { return faults_; }

  models::Target target() const override { return models::Target::cpu; }
  std::byte* allocate(MemoryKind kind, int64_t bytes) override;
  void free(MemoryKind kind, std::byte* memory) override;
  int64_t available_bytes(MemoryKind kind) override { return cpu_->available_bytes(kind); }
  int64_t used_bytes(MemoryKind kind) override { return cpu_->used_bytes(kind); }
  void run(Lane lane, const models::Op& op, const models::KernelCall& call) override;
  void copy(Lane lane, const models::Ref& from, const models::Ref& to) override;
  void record(Lane lane, int event) override { cpu_->record(lane, event); }
  void wait(Lane lane, int event) override { cpu_->wait(lane, event); }
  void synchronize() override { cpu_->synchronize(); }
  void write(MemoryKind kind, std::byte* to, const void* from, int64_t bytes) override {
    cpu_->write(kind, to, from, bytes);
  }
  void read(MemoryKind kind, void* to, const std::byte* from, int64_t bytes) override {
    cpu_->read(kind, to, from, bytes);
  }
  void write_zeros(MemoryKind kind, std::byte* to, int64_t bytes) override {
    cpu_->write_zeros(kind, to, bytes);
  }

 private:
  struct Range {
    std::byte *begin, *end;
  };
  void remember();
  void expect_unchanged_outside(std::vector<Range> written, const std::string& who);

  std::unique_ptr<Backend> cpu_;
  std::map<std::byte*, std::vector<std::byte>> memory_;  // allocations, and what they held
  std::map<std::string, std::vector<Workspace>> workspaces_;
  std::vector<std::string> faults_;
};

}  // namespace longshore::offload
