// The devices that train together, as one of them reaches the others.
#pragma once

#include "models/op.h"

namespace longshore::offload {

class Communicator {
 public:
  virtual ~Communicator() = default;

  // A collective of offload/collectives.h, among the ranks along its axis, which all call it in the
  // same order. Where the call has a stream it is enqueued there; otherwise it is done on return.
  // Throws Error, naming the rank where that is known, when the others cannot be reached.
  virtual void run(const models::Op& op, const models::KernelCall& call) = 0;
};

}  // namespace longshore::offload
