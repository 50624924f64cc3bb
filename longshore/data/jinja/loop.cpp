#include "longshore/data/jinja/loop.h"

#include "longshore/data/jinja/arguments.h"

namespace longshore::data::jinja {

bool Loop::pull() {
  while (pulled_ < elements_.size()) {
    const Value& element = elements_[pulled_++];
    if (admits_ && !admits_(element)) continue;
    ahead_.push_back(element);
    return true;
  }
  return false;
}

const Value* Loop::next() {
  budget_.step();
  if (ahead_.empty() && !pull()) return nullptr;
  previous_ = std::move(current_);
  current_ = std::move(ahead_.front());
  ahead_.pop_front();
  ++index_;
  return &*current_;
}

int64_t Loop::length() {
  if (!admits_) return static_cast<int64_t>(elements_.size());
  while (pull()) budget_.memory(sizeof(Value));
  return index_ + static_cast<int64_t>(ahead_.size());
}

Value Loop::cycle(const Arguments& arguments) const {
  if (arguments.positional.empty())
    throw DataError("loop.cycle: found no argument, expected the values to go through");
  const size_t count = arguments.positional.size();
  return arguments.positional[static_cast<size_t>(index_ - 1) % count];
}

Value Loop::changed(std::vector<Value> values) {
  bool is_same = last_seen_ && last_seen_->size() == values.size();
  for (size_t i = 0; is_same && i < values.size(); ++i)
    is_same = equal((*last_seen_)[i], values[i], budget_);
  if (!is_same) last_seen_ = std::move(values);
  return !is_same;
}

std::optional<Value> Loop::attribute(std::string_view name, const std::shared_ptr<Loop>& self) {
  if (name == "index") return index_;
  if (name == "index0") return index_ - 1;
  if (name == "first") return index_ == 1;
  if (name == "last") return ahead_.empty() && !pull();
  if (name == "length") return length();
  if (name == "revindex") return length() - index_ + 1;
  if (name == "revindex0") return length() - index_;
  if (name == "depth") return static_cast<int64_t>(depth_);
  if (name == "depth0") return static_cast<int64_t>(depth_) - 1;
  if (name == "previtem") {
    if (index_ > 1) return previous_;
    return make_undefined("there is no previous item");
  }
  if (name == "nextitem") {
    if (!ahead_.empty() || pull()) return ahead_.front();
    return make_undefined("there is no next item");
  }
  // These are called while the loop runs: a function that outlives it finds none.
  auto alive = [](const std::weak_ptr<Loop>& loop) {
    if (auto held = loop.lock()) return held;
    throw DataError("found a call of a loop that has ended, expected one that runs");
  };
  const std::weak_ptr<Loop> weak = self;
  if (name == "cycle")
    return std::make_shared<const Function>(
        Function{"loop.cycle",
                 [weak, alive](Arguments& arguments) { return alive(weak)->cycle(arguments); }});
  if (name == "changed")
    return std::make_shared<const Function>(
        Function{"loop.changed", [weak, alive](Arguments& arguments) {
                   return alive(weak)->changed(std::move(arguments.positional));
                 }});
  return std::nullopt;
}

}  // namespace longshore::data::jinja
