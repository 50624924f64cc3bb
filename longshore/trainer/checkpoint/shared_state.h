// The state of a run of several processes, of which each holds a part. While the first writes a
// checkpoint the others give it what it asks for, a piece at a time: nobody ever holds the whole.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "longshore/offload/execution/arguments.h"
#include "longshore/offload/lowering/parameter_layout.h"
#include "longshore/trainer/distributed/world.h"

namespace longshore::trainer {

// The whole state, as the first process reads it, from several threads if it likes. `held` says
// what this process has, which is in `mine`; both must outlive this. Reading throws Error when a
// process cannot be reached.
class SharedState : public offload::ArgumentReader {
 public:
  SharedState(const offload::ParameterLayout& held, const offload::ArgumentReader& mine,
              World& world);
  ~SharedState() override;  // lets the others go
  SharedState(const SharedState&) = delete;
  SharedState& operator=(const SharedState&) = delete;

  void read_part(const std::string& name, int64_t offset, void* to, int64_t bytes) const override;

 private:
  struct Argument {
    int64_t number = 0, bytes_held = 0;
    std::vector<int64_t> holders;
  };

  void ask(int64_t holder, int64_t number, int64_t offset, std::span<std::byte> to) const;

  const offload::ArgumentReader& mine_;
  World& world_;
  std::set<int64_t> givers_;
  std::map<std::string, Argument> arguments_;
  mutable std::mutex mutex_;  // of questions and their answers
};

// What every other process does meanwhile, until the first lets it go.
void give_state(const offload::ParameterLayout& held, const offload::ArgumentReader& mine,
                World& world);

}  // namespace longshore::trainer
