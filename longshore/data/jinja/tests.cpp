#include <unordered_map>

#include "longshore/data/jinja/arguments.h"
#include "longshore/data/jinja/characters.h"
#include "longshore/data/jinja/filters.h"
#include "longshore/data/jinja/none_named.h"
#include "longshore/data/jinja/operators.h"
#include "longshore/data/jinja/python_text.h"

namespace longshore::data::jinja {
namespace {

struct Call {
  const Value& value;
  const Arguments& arguments;
  Budget& budget;

  Value only_argument(const char* name) const { return Bound(arguments, name, {"other"}, 1)[0]; }
};

struct Test {
  bool (*holds)(const Call&);
  bool takes_argument = false;
};

template <class T>
bool is(const Call& call) {
  return call.value.is<T>();
}

template <bool truth>
bool is_boolean(const Call& call) {
  const bool* boolean = call.value.get<bool>();
  return boolean && *boolean == truth;
}

template <Comparator comparator>
bool compares(const Call& call) {
  return compared(comparator, call.value, call.only_argument("a comparison"), call.budget);
}

bool leaves(const Call& call, const Value& divisor, int64_t remainder) {
  const Value left = binary(Operator::modulo, call.value, divisor, call.budget);
  return equal(left, remainder, call.budget);
}

template <CharacterClass character_class>
bool is_all_of(const Call& call) {
  return is_all(str(call.value, call.budget), character_class, call.budget);
}

bool is_sequence(const Call& call) {
  auto* sequence = call.value.get<SequencePtr>();
  return sequence ? (*sequence)->kind <= SequenceKind::range : is_iterable(call.value);
}

bool is_callable(const Call& call) {
  return call.value.is<FunctionPtr>() || call.value.is<std::weak_ptr<Loop>>() ||
         call.value.is<Undefined>();
}

bool is_same(const Call& call) {
  const Value other = call.only_argument("sameas");
  if (call.value.index() != other.index()) return false;
  if (auto* text = call.value.get<Text>()) return text->bytes == other.get<Text>()->bytes;
  if (auto* sequence = call.value.get<SequencePtr>()) return *sequence == *other.get<SequencePtr>();
  if (auto* dict = call.value.get<DictPtr>()) return *dict == *other.get<DictPtr>();
  return equal(call.value, other, call.budget);
}

const std::unordered_map<std::string, Test>& tests() {
  static const std::unordered_map<std::string, Test> all = {
      {"!=", {compares<Comparator::unequal>, true}},
      {"<", {compares<Comparator::less>, true}},
      {"<=", {compares<Comparator::less_equal>, true}},
      {"==", {compares<Comparator::equal>, true}},
      {">", {compares<Comparator::greater>, true}},
      {">=", {compares<Comparator::greater_equal>, true}},
      {"boolean", {is<bool>}},
      {"callable", {is_callable}},
      {"defined", {[](const Call& call) { return !call.value.is<Undefined>(); }}},
      {"divisibleby",
       {[](const Call& call) { return leaves(call, call.only_argument("divisibleby"), 0); }, true}},
      {"eq", {compares<Comparator::equal>, true}},
      {"equalto", {compares<Comparator::equal>, true}},
      {"escaped",
       {[](const Call& call) { return call.value.is<Text>() && call.value.get<Text>()->is_safe; }}},
      {"even", {[](const Call& call) { return leaves(call, int64_t{2}, 0); }}},
      {"false", {is_boolean<false>}},
      {"filter",
       {[](const Call& call) { return as_text(call.value) && has_filter(*as_text(call.value)); }}},
      {"float", {is<double>}},
      {"ge", {compares<Comparator::greater_equal>, true}},
      {"greaterthan", {compares<Comparator::greater>, true}},
      {"gt", {compares<Comparator::greater>, true}},
      {"in", {compares<Comparator::in>, true}},
      {"integer", {is<int64_t>}},
      {"iterable", {[](const Call& call) {
         return is_iterable(call.value) || call.value.is<std::weak_ptr<Loop>>();
       }}},
      {"le", {compares<Comparator::less_equal>, true}},
      {"lessthan", {compares<Comparator::less>, true}},
      {"lower", {is_all_of<CharacterClass::lower>}},
      {"lt", {compares<Comparator::less>, true}},
      {"mapping", {is<DictPtr>}},
      {"ne", {compares<Comparator::unequal>, true}},
      {"none", {is<None>}},
      {"number", {[](const Call& call) { return is_number(call.value); }}},
      {"odd", {[](const Call& call) { return leaves(call, int64_t{2}, 1); }}},
      {"sameas", {is_same, true}},
      {"sequence", {is_sequence}},
      {"string", {is<Text>}},
      {"test",
       {[](const Call& call) { return as_text(call.value) && has_test(*as_text(call.value)); }}},
      {"true", {is_boolean<true>}},
      {"undefined", {is<Undefined>}},
      {"upper", {is_all_of<CharacterClass::upper>}},
  };
  return all;
}

}  // namespace

bool has_test(const std::string& name) { return tests().contains(name); }

std::string no_test(const std::string& name) { return none_named("test", tests(), name); }

bool apply_test(const std::string& name, const Value& value, const Arguments& arguments,
                Budget& budget) {
  const Budget::Level level(budget);
  budget.step(2);
  const auto test = tests().find(name);
  if (test == tests().end()) throw DataError(no_test(name));
  if (!test->second.takes_argument) Bound(arguments, name, {});
  return test->second.holds({value, arguments, budget});
}

}  // namespace longshore::data::jinja
