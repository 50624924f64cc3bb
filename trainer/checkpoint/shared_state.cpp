#include "trainer/checkpoint/shared_state.h"

#include <algorithm>
#include <exception>
#include <span>
#include <vector>

#include "trainer/weights/saved_state.h"

namespace longshore::trainer {
namespace {

// A part of one of the arguments that are saved, which all processes number alike.
struct Question {
  int64_t number = 0;  // kEnough: nothing more is asked
  int64_t offset = 0, bytes = 0;
};
constexpr int64_t kEnough = -1;

}  // namespace

// The first processes of the mesh, as many as there are along fsdp, hold one of everything.
SharedState::SharedState(const offload::ParameterLayout& held, const offload::ArgumentReader& mine,
                         World& world)
    : mine_(mine), world_(world), holders_(held.mesh.fsdp.size) {
  int64_t number = 0;
  for (const SavedArgument& one : saved_arguments(held))
    arguments_[one.name] = {number++, one.bytes};
}

SharedState::~SharedState() {
  for (int64_t holder = 1; holder < holders_; ++holder) try {
      const Question enough{.number = kEnough};
      world_.send(holder, std::as_bytes(std::span(&enough, 1)));
    } catch (const std::exception&) {
      // Whoever cannot be reached is not waiting.
    }
}

void SharedState::read_part(const std::string& name, int64_t offset, void* to,
                            int64_t bytes) const {
  const auto [number, bytes_held] = arguments_.at(name);
  std::span<std::byte> rest(static_cast<std::byte*>(to), static_cast<size_t>(bytes));
  while (!rest.empty()) {
    const int64_t holder = offset / bytes_held, first = offset % bytes_held;
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
  if (world.rank() >= held.mesh.fsdp.size) return;
  const std::vector<SavedArgument> arguments = saved_arguments(held);
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
