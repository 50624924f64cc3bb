// Arguments: memory that plans know by name, and that exists before and after they run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "longshore/offload/backends/backend.h"
#include "longshore/offload/execution/arenas.h"
#include "longshore/offload/memory/memory.h"

namespace longshore::offload {

// Read-only access to arguments by name.
class ArgumentReader {
 public:
  virtual ~ArgumentReader() = default;

  // Throws InternalError where the part would reach beyond the argument.
  virtual void read_part(const std::string& name, int64_t offset, void* to,
                         int64_t bytes) const = 0;
};

// The arguments of plans by name. They are allocated on first use and keep their contents between
// plans.
class Arguments : public ArgumentReader {
 public:
  // Arguments on the device share one allocation of `device_bytes` as far as it has room for them,
  // because a GPU's driver rounds each allocation up to 2 MiB.
  Arguments(Backend& backend, Ledger& ledger, int64_t device_bytes = 0);
  ~Arguments() override;
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  std::byte* at(const std::string& name, int64_t bytes, MemoryKind kind, Category category);
  bool has(const std::string& name) const { return arguments_.count(name) > 0; }

  void write(const std::string& name, const void* from, int64_t bytes);
  void read(const std::string& name, void* to, int64_t bytes) const;
  // Writes a part of the argument; throws InternalError where that would reach beyond its end.
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

}  // namespace longshore::offload
