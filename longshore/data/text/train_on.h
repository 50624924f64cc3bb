// What of a conversation is learnt.
#pragma once

#include <cstdint>

namespace longshore::data {

enum class TrainOn : uint8_t {
  assistant,       // what the assistant writes
  last_assistant,  // what it writes last
  all              // the whole text
};

}  // namespace longshore::data
