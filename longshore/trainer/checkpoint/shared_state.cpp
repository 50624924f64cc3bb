#include "longshore/trainer/checkpoint/shared_state.h"

#include <algorithm>
#include <exception>
#include <span>
#include <vector>

#include "longshore/trainer/weights/saved_state.h"

namespace longshore::trainer {
namespace {

// A part of one of the arguments that are saved, which all processes number alike.
struct Question {
  int64_t number = 0;  // kEnough: nothing more is asked
  int64_t offset = 0, bytes = 0;
};
constexpr int64_t kEnough = -1;

// The processes that are asked.
std::set<int64_t> givers_of(const std::vector<SavedArgument>& arguments) {
  std::set<int64_t> givers;
  for (const SavedArgument& one : arguments) givers.insert(one.holders.begin(), one.holders.end());
  givers.erase(0);
  return givers;
}

}  // namespace

SharedState::SharedState(const offload::ParameterLayout& held, const offload::ArgumentReader& mine,
                         World& world)
    : mine_(mine), world_(world) {
  const std::vector<SavedArgument> arguments = saved_arguments(held);
  givers_ = givers_of(arguments);
  int64_t number = 0;
  for (const SavedArgument& one : arguments)
    arguments_[one.name] = {number++, one.bytes, one.holders};
}

SharedState::~SharedState() {
  for (const int64_t holder : givers_) try {
      const Question enough{.number = kEnough};
      world_.send(holder, std::as_bytes(std::span(&enough, 1)));
    } catch (const std::exception&) {
      // Whoever cannot be reached is not waiting.
    }
}

void SharedState::read_part(const std::string& name, int64_t offset, void* to,
                            int64_t bytes) const {
  const auto& [number, bytes_held, holders] = arguments_.at(name);
  std::span<std::byte> rest(static_cast<std::byte*>(to), static_cast<size_t>(bytes));
  while (!rest.empty()) {
    const int64_t holder = holders.at(offset / bytes_held), first = offset % bytes_held;
    const std::span<std::byte> part =
        rest.first(static_cast<size_t>(std::min(std::ssize(rest), bytes_held - first)));
    if (holder == 0)
      mine_.read_part(name, first, part.data(), std::ssize(part));
    else
      ask(holder, number, first, part);
    rest = rest.subspan(part.size());
    offset += std::ssize(part);
  }
}

void SharedState::ask(int64_t holder, int64_t number, int64_t offset,
                      std::span<std::byte> to) const {
  const Question question{number, offset, std::ssize(to)};
  std::lock_guard lock(mutex_);
  world_.send(holder, std::as_bytes(std::span(&question, 1)));
  world_.receive(holder, to);
}

void give_state(const offload::ParameterLayout& held, const offload::ArgumentReader& mine,
                World& world) {
  const std::vector<SavedArgument> arguments = saved_arguments(held);
  if (!givers_of(arguments).contains(world.rank())) return;
  std::vector<std::byte> answer;
  for (Question question;;) {
    world.receive(0, std::as_writable_bytes(std::span(&question, 1)));
    if (question.number == kEnough) return;
    answer.resize(static_cast<size_t>(question.bytes));
    mine.read_part(arguments.at(question.number).name, question.offset, answer.data(),
                   question.bytes);
    world.send(0, answer);
  }
}

}  // namespace longshore::trainer
