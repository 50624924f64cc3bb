// Conversations as tests write them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "longshore/data/text/example.h"

namespace longshore::data {

// Each message by its role and content, a string or parts.
inline Conversation conversation_of(
    const std::vector<std::pair<std::string, nlohmann::ordered_json>>& turns) {
  Conversation conversation;
  for (const auto& [role, content] : turns) {
    conversation.messages.push_back({{"role", role}, {"content", content}});
    conversation.carries_loss.push_back(role == kAssistant);
  }
  return conversation;
}

}  // namespace longshore::data
