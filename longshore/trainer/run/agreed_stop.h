// An AgreedStop stops the processes of a run together: what one of them is told, all of them do at
// the same place.
#pragma once

#include <string>

#include "longshore/base/stop_signal.h"
#include "longshore/trainer/distributed/world.h"

namespace longshore::trainer {

class AgreedStop {
 public:
  explicit AgreedStop(World& world) : world_(world) {}

  // This process cannot go on.
  void ask() { is_asked_here_ = true; }
  // Whether any process was told to stop, or asked for it, up to now. All processes call it at the
  // same places.
  bool is_asked();
  // What a person is told of it: "SIGTERM".
  std::string reason() const;

 private:
  World& world_;
  bool is_asked_here_ = false, is_asked_ = false;
};

}  // namespace longshore::trainer
