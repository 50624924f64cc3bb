// The one loop that runs plans, on any backend.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "offload/backend.h"
#include "offload/plan.h"

namespace longshore::offload {

// Memory of one kind that several plans use in turn for their temporaries; as large as the largest
// of them needs.
class Arena {
 public:
  Arena(Backend& backend, MemoryKind kind, int64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* memory() const { return memory_; }
  int64_t bytes() const { return bytes_; }

 private:
  Backend& backend_;
  MemoryKind kind_;
  int64_t bytes_;
  std::byte* memory_;
};

// What lies in arguments, by name, for those who only read it.
class ArgumentReader {
 public:
  virtual ~ArgumentReader() = default;

  // Throws InternalError where the part would reach beyond the argument.
  virtual void read_part(const std::string& name, int64_t offset, void* to,
                         int64_t bytes) const = 0;
};

// The arguments of plans by name. Allocated on first use; they keep their contents between plans.
class Arguments : public ArgumentReader {
 public:
  // Those on the device lie one behind the other in one allocation of so many bytes, as far as they
  // have room there: a GPU's driver rounds each allocation up, to 2 MiB.
  Arguments(Backend& backend, Ledger& ledger, int64_t device_bytes = 0);
  ~Arguments() override;
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  std::byte* at(const std::string& name, int64_t bytes, MemoryKind kind, Category category);
  bool has(const std::string& name) const { return arguments_.count(name) > 0; }

  void write(const std::string& name, const void* from, int64_t bytes);
  void read(const std::string& name, void* to, int64_t bytes) const;
  // A part of it; throws InternalError where it would reach beyond.
  void write_part(const std::string& name, int64_t offset, const void* from, int64_t bytes);
  void write_zeros(const std::string& name);
  void read_part(const std::string& name, int64_t offset, void* to, int64_t bytes) const override;

 private:
  struct Argument {
    std::byte* memory;
    int64_t bytes;
    MemoryKind kind;
    bool is_in_arena;
  };

  const Argument& find(const std::string& name) const;
  const Argument& find(const std::string& name, int64_t bytes) const;
  std::byte* part(const Argument& argument, const std::string& name, int64_t offset,
                  int64_t bytes) const;

  Backend& backend_;
  Ledger& ledger_;
  std::optional<Arena> device_;
  int64_t used_device_bytes_ = 0;  // of that arena
  std::map<std::string, Argument> arguments_;
};

// A plan whose operands are addresses.
class Executable {
 public:
  // Where each buffer of the caller's is.
  using Address = std::function<std::byte*(const Buffer&)>;

  // The arenas must hold what the plan needs; plan, memory and arenas must outlive this.
  Executable(const Plan& plan, Backend& backend, const Address& address, const Arena& device,
             const Arena& pinned_host);
  Executable(const Plan& plan, Backend& backend, Arguments& arguments, const Arena& device,
             const Arena& pinned_host);

  // Enqueues everything and, at the end, lets each lane wait for the others; does not wait itself,
  // unless something fails: then it throws when all lanes are at rest. Temporaries are entered in
  // the ledger as they come and go.
  void run(Ledger& ledger);

  // The prepared calls, for tests that watch kernels.
  struct Bound {
    std::vector<models::Ref> in, out;
    std::span<std::byte> workspace;
  };
  const std::vector<Bound>& bound() const { return bound_; }

 private:
  void enqueue(Ledger& ledger, std::vector<int>& alive);

  const Plan& plan_;
  Backend& backend_;
  std::vector<Bound> bound_;
  std::vector<std::vector<int>> born_, dead_;  // temporaries, by instruction
  std::vector<int> carried_;
};

}  // namespace longshore::offload
