// An AgreedStop stops the processes of a run together: what one of them is told, all of them do at
// the same place.
#pragma once

#include <string>

#include "base/stop_signal.h"
#include "trainer/distributed/world.h"

namespace longshore::trainer {

class AgreedStop {
 public:
  explicit AgreedStop(World& world) : world_(world) {}

  // Whether any process was told to stop, up to now. All processes ask at the same places.
  bool is_asked();
  // What a person is told of it: "SIGTERM".
  static std::string reason();

 private:
  World& world_;
  bool is_asked_ = false;
};

}  // namespace longshore::trainer
