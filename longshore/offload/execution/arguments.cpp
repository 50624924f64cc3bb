#include "longshore/offload/execution/arguments.h"

#include "longshore/base/error.h"
#include "longshore/offload/memory/alignment.h"

namespace longshore::offload {

Arguments::Arguments(Backend& backend, Ledger& ledger, int64_t device_bytes)
    : backend_(backend), ledger_(ledger) {
  if (device_bytes > 0) device_.emplace(backend, MemoryKind::device, device_bytes);
}

Arguments::~Arguments() {
  for (auto& [name, argument] : arguments_)
    if (!argument.is_in_arena) backend_.free(argument.kind, argument.memory);
}

std::byte* Arguments::at(const std::string& name, int64_t bytes, MemoryKind kind,
                         Category category) {
  if (!arguments_.count(name)) {
    const int64_t taken = align_up(bytes);
    const bool is_in_arena =
        kind == MemoryKind::device && device_ && used_device_bytes_ + taken <= device_->bytes();
    std::byte* memory = is_in_arena ? device_->memory() + used_device_bytes_
                                    : backend_.allocate(kind, taken);  // or nothing is entered
    if (is_in_arena) used_device_bytes_ += taken;
    arguments_[name] = {memory, bytes, kind, is_in_arena};
    ledger_.take(kind, category, taken);
  }
  return find(name, bytes).memory;
}

const Arguments::Argument& Arguments::find(const std::string& name) const {
  auto entry = arguments_.find(name);
  if (entry == arguments_.end()) throw InternalError("no argument is named " + name);
  return entry->second;
}

const Arguments::Argument& Arguments::find(const std::string& name, int64_t bytes) const {
  const Argument& argument = find(name);
  if (argument.bytes != bytes)
    throw InternalError("argument " + name + " has " + std::to_string(argument.bytes) +
                        " bytes, not " + std::to_string(bytes));
  return argument;
}

void Arguments::write(const std::string& name, const void* from, int64_t bytes) {
  find(name, bytes);
  write_part(name, 0, from, bytes);
}

void Arguments::read(const std::string& name, void* to, int64_t bytes) const {
  find(name, bytes);
  read_part(name, 0, to, bytes);
}

std::byte* Arguments::part(const Argument& argument, const std::string& name, int64_t offset,
                           int64_t bytes) const {
  if (offset < 0 || bytes < 0 || offset + bytes > argument.bytes)
    throw InternalError("argument " + name + " has " + std::to_string(argument.bytes) +
                        " bytes, not " + std::to_string(offset) + " and " + std::to_string(bytes));
  return argument.memory + offset;
}

void Arguments::write_part(const std::string& name, int64_t offset, const void* from,
                           int64_t bytes) {
  const Argument& argument = find(name);
  backend_.write(argument.kind, part(argument, name, offset, bytes), from, bytes);
}

void Arguments::write_zeros(const std::string& name) {
  const Argument& argument = find(name);
  backend_.write_zeros(argument.kind, argument.memory, argument.bytes);
}

void Arguments::read_part(const std::string& name, int64_t offset, void* to, int64_t bytes) const {
  const Argument& argument = find(name);
  backend_.read(argument.kind, to, part(argument, name, offset, bytes), bytes);
}

}  // namespace longshore::offload
