// A Communicator connects a device with the other devices that train with it.
#pragma once

#include "longshore/models/ir/op.h"

namespace longshore::offload {

class Communicator {
 public:
  virtual ~Communicator() = default;

  // Runs a collective of longshore/models/ir/collectives.h among the ranks along its axis, which
  // all have to call their collectives in the same order. The collective is enqueued on the call's
  // stream; without a stream it is done on return. Throws Error where another rank cannot be
  // reached, naming the rank if it is known.
  virtual void run(const models::Op& op, const models::KernelCall& call) = 0;

  // Throws Error where a collective that was enqueued has failed since. It then ends all that are
  // under way, which would otherwise keep their stream for ever, and run() throws from then on.
  virtual void require_working() {}
};

}  // namespace longshore::offload
