// A Loop is the variable `loop` of a for statement, and what that goes through.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string_view>

#include "longshore/data/jinja/value.h"

namespace longshore::data::jinja {

class Loop {
 public:
  // An element for which `admits` holds, where there is that, is one of the loop's: it is asked no
  // earlier than the loop needs to know, since it may see what the loop's body does.
  Loop(Elements elements, std::function<bool(const Value&)> admits, size_t depth, Budget& budget)
      : elements_(std::move(elements)),
        admits_(std::move(admits)),
        depth_(depth),
        budget_(budget) {}

  // Goes on to the next element; null where there is none.
  const Value* next();

  size_t depth() const { return depth_; }

  // Of the object `loop`; nothing where that has none of that name.
  std::optional<Value> attribute(std::string_view name, const std::shared_ptr<Loop>& self);

  // Renders the loop for the elements of another value; empty where it is not recursive.
  std::function<Value(const Value&)> recurse;

 private:
  bool pull();  // one element more into ahead_
  int64_t length();
  Value cycle(const Arguments& arguments) const;
  Value changed(std::vector<Value> values);

  Elements elements_;
  std::function<bool(const Value&)> admits_;
  size_t depth_;
  Budget& budget_;
  size_t pulled_ = 0;
  std::deque<Value> ahead_;
  int64_t index_ = 0;  // from 1
  std::optional<Value> previous_, current_;
  std::optional<std::vector<Value>> last_seen_;  // by changed()
};

}  // namespace longshore::data::jinja
