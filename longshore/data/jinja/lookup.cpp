#include "longshore/data/jinja/lookup.h"

#include <algorithm>
#include <optional>

#include "longshore/base/printable.h"
#include "longshore/data/jinja/characters.h"
#include "longshore/data/jinja/loop.h"
#include "longshore/data/jinja/methods.h"
#include "longshore/data/jinja/operators.h"
#include "longshore/data/jinja/python_format.h"

namespace longshore::data::jinja {
namespace {

// Where a slice begins and ends of so many elements, as Python has it.
struct Range {
  int64_t begin, end, step;
};

Range slice_range(const Value& begin, const Value& end, const Value& step, int64_t count) {
  constexpr const char* kWhat = "a bound of a slice";
  Range range{0, 0, step.is<None>() ? 1 : as_integer(step, kWhat)};
  if (range.step == 0) throw DataError("found the step 0 in a slice, expected another");
  const int64_t low = range.step < 0 ? -1 : 0, high = range.step < 0 ? count - 1 : count;
  auto bound = [&](const Value& value, int64_t missing) {
    if (value.is<None>()) return missing;
    const int64_t given = as_integer(value, kWhat);
    return std::clamp(given < 0 ? given + count : given, low, high);
  };
  range.begin = bound(begin, range.step < 0 ? high : low);
  range.end = bound(end, range.step < 0 ? low : high);
  return range;
}

template <class F>
void for_each_in(const Range& range, int64_t count, Budget& budget, F f) {
  for (int64_t i = range.begin; range.step > 0 ? i < range.end : i > range.end;) {
    budget.step();
    f(i);
    // A step may be as large as an integer can be.
    if (range.step > count || range.step < -count) break;
    i += range.step;
  }
}

Value slice_of_text(const Value& value, const Range& range, Budget& budget) {
  const std::string& text = *as_text(value);
  if (range.step == 1) {
    const size_t begin = byte_of_character(text, static_cast<size_t>(range.begin), budget);
    const auto count = static_cast<size_t>(std::max<int64_t>(range.end - range.begin, 0));
    const std::string_view rest = std::string_view(text).substr(begin);
    return text_like(value, std::string(rest.substr(0, byte_of_character(rest, count, budget))),
                     budget);
  }
  const Elements characters(value, budget);
  std::string result;
  for_each_in(range, static_cast<int64_t>(characters.size()), budget,
              [&](int64_t i) { result += *as_text(characters[static_cast<size_t>(i)]); });
  return text_like(value, std::move(result), budget);
}

// Of a list, a tuple, a range or a text: nothing where it has no such position.
std::optional<Value> at_position(const Value& value, int64_t index, Budget& budget) {
  auto* sequence = value.get<SequencePtr>();
  const std::string* text = as_text(value);
  if (sequence && (*sequence)->kind > SequenceKind::range) return std::nullopt;
  if (!sequence && !text) return std::nullopt;
  const auto count = static_cast<int64_t>(sequence ? (*sequence)->elements.size()
                                                   : count_characters(*text, budget));
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  const auto at = static_cast<size_t>(index);
  if (sequence) return (*sequence)->elements[at];
  const size_t byte = byte_of_character(*text, at, budget);
  const std::string_view rest = std::string_view(*text).substr(byte);
  return text_like(value, std::string(rest.substr(0, byte_of_character(rest, 1, budget))), budget);
}

// What getattr() of Python finds.
std::optional<Value> python_attribute(const Value& value, const std::string& name, Budget& budget) {
  if (auto* space = value.get<Namespace*>()) {
    const Value* own = find((*space)->attributes, name, budget);
    return own ? std::optional(*own) : std::nullopt;
  }
  if (auto* loop = value.get<std::weak_ptr<Loop>>()) {
    if (const auto held = loop->lock()) return held->attribute(name, held);
    throw DataError("found the loop of a for statement that has ended, expected one that runs");
  }
  if (name.starts_with("__") && name.ends_with("__") && name.size() > 4)
    return make_undefined("the attribute " + excerpt(name) + " is not for templates");
  // Fields of a text that is to be formatted have attributes and elements themselves.
  if (const Text* text = value.get<Text>(); text && name == "format" && !text->is_safe)
    return std::make_shared<const Function>(Function{
        name, [value, &budget](Arguments& arguments) {
          return make_text(brace_format(*as_text(value), arguments, {attribute, element}, budget),
                           budget);
        }});
  return method(value, name, budget);
}

std::optional<Value> own_element(const Value& value, const Value& index, Budget& budget) {
  if (auto* dict = value.get<DictPtr>()) {
    if (!is_hashable(index, budget)) return std::nullopt;
    const Value* own = find(**dict, index, budget);
    return own ? std::optional(*own) : std::nullopt;
  }
  if (!is_integer(index)) return std::nullopt;
  return at_position(value, as_integer(index, "an index"), budget);
}

}  // namespace

Value attribute(const Value& value, const std::string& name, Budget& budget) {
  require_defined(value);
  if (auto own = python_attribute(value, name, budget)) return *std::move(own);
  if (auto* dict = value.get<DictPtr>())
    if (const Value* own = find(**dict, name, budget)) return *own;
  return make_undefined(type_name(value) + " has no attribute " + excerpt(name));
}

Value element(const Value& value, const Value& index, Budget& budget) {
  require_defined(value);
  if (auto own = own_element(value, index, budget)) return *std::move(own);
  const std::string* name = as_text(index);
  if (name)
    if (auto own = python_attribute(value, *name, budget)) return *std::move(own);
  return make_undefined(type_name(value) + " has no element " +
                        (name ? excerpt(*name)
                         : is_integer(index)
                             ? std::to_string(as_integer(index, "an index"))
                             : "with the index that is given, of type " + type_name(index)));
}

Value slice(const Value& value, const Value& begin, const Value& end, const Value& step,
            Budget& budget) {
  require_defined(value);
  const auto* sequence = value.get<SequencePtr>();
  if (const std::string* text = as_text(value)) {
    const auto count = static_cast<int64_t>(count_characters(*text, budget));
    return slice_of_text(value, slice_range(begin, end, step, count), budget);
  }
  if (!sequence || (*sequence)->kind > SequenceKind::range)
    throw DataError("found a slice of " + type_name(value) + ", expected one of a list or a str");
  const auto& elements = (*sequence)->elements;
  const auto count = static_cast<int64_t>(elements.size());
  std::vector<Value> taken;
  for_each_in(slice_range(begin, end, step, count), count, budget,
              [&](int64_t i) { taken.push_back(elements[static_cast<size_t>(i)]); });
  const SequenceKind kind =
      (*sequence)->kind == SequenceKind::group ? SequenceKind::tuple : (*sequence)->kind;
  return make_sequence(kind, std::move(taken), budget);
}

}  // namespace longshore::data::jinja
