#include "trainer/run/agreed_stop.h"

namespace longshore::trainer {

bool AgreedStop::is_asked() {
  if (!is_asked_) is_asked_ = world_.sum(StopSignal::is_there()) > 0;
  return is_asked_;
}

std::string AgreedStop::reason() {
  return StopSignal::is_there() ? StopSignal::name() : "another process was told to stop";
}

}  // namespace longshore::trainer
