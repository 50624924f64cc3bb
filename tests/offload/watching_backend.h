// The CPU's backend, watching what kernels and copies do to memory: before each, outputs and
// workspace are filled with NaNs; after it, every byte of every allocation that is neither output
// nor workspace must be as it was. Lanes run one after the other.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/offload/forwarding_backend.h"

namespace longshore::offload {

class WatchingBackend : public ForwardingBackend {
 public:
  WatchingBackend();

  struct Workspace {
    int64_t declared_bytes = 0, touched_bytes = 0;  // up to the last byte that was written
  };
  // Of every call, by op.
  const std::map<std::string, std::vector<Workspace>>& workspaces() const { return workspaces_; }
  const std::vector<std::string>& faults() const { return faults_; }

  std::byte* allocate(MemoryKind kind, int64_t bytes) override;
  void free(MemoryKind kind, std::byte* memory) override;
  void run(Lane lane, const models::Op& op, const models::KernelCall& call) override;
  void copy(Lane lane, const models::Ref& from, const models::Ref& to) override;

 private:
  struct Range {
    std::byte *begin, *end;
  };
  void remember();
  void expect_unchanged_outside(std::vector<Range> written, const std::string& who);

  std::map<std::byte*, std::vector<std::byte>> memory_;  // allocations, and what they held
  std::map<std::string, std::vector<Workspace>> workspaces_;
  std::vector<std::string> faults_;
};

}  // namespace longshore::offload
