#include "longshore/trainer/run/agreed_stop.h"

namespace longshore::trainer {

bool AgreedStop::is_asked() {
  if (!is_asked_) is_asked_ = world_.sum(is_asked_here_ || StopSignal::is_there()) > 0;
  return is_asked_;
}

std::string AgreedStop::reason() const {
  if (StopSignal::is_there()) return StopSignal::name();
  return is_asked_here_ ? "a batch could not be made" : "another process stopped";
}

}  // namespace longshore::trainer
