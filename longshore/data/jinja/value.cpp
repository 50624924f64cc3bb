#include "longshore/data/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "longshore/base/printable.h"
#include "longshore/base/utf8.h"
#include "longshore/data/jinja/characters.h"

namespace longshore::data::jinja {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostDepthOfValues = 100;  // which functions that call themselves go through
constexpr size_t kFewItems = 8;             // of a dict that is searched from its beginning
constexpr size_t kBytesOfObject = 64;       // that stands alone in memory

size_t depth_of(const Value& value) {
  if (auto* sequence = value.get<SequencePtr>()) return (*sequence)->depth;
  if (auto* dict = value.get<DictPtr>()) return (*dict)->depth;
  return 0;
}

size_t one_deeper(size_t depth) {
  if (depth == kMostDepthOfValues)
    throw DataError("found values nested deeper than " + std::to_string(kMostDepthOfValues) +
                    ", expected less");
  return depth + 1;
}

// Of a tuple, or of two lists or ranges.
bool are_comparable(const Sequence& a, const Sequence& b) {
  if (a.is_tuple() && b.is_tuple()) return true;
  return a.kind == b.kind && (a.kind == SequenceKind::list || a.kind == SequenceKind::range);
}

// Of 64-bit integers and doubles, exactly: the type has 64 bits of mantissa.
long double exact(const Value& number) {
  if (auto* integer = number.get<int64_t>()) return *integer;
  if (auto* boolean = number.get<bool>()) return *boolean;
  return *number.get<double>();
}

bool equal_elements(const Sequence& a, const Sequence& b, Budget& budget) {
  if (a.elements.size() != b.elements.size()) return false;
  for (size_t i = 0; i < a.elements.size(); ++i)
    if (!equal(a.elements[i], b.elements[i], budget)) return false;
  return true;
}

bool equal_items(const Dict& a, const Dict& b, Budget& budget) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const Value* other = find(b, key, budget);
    if (other == nullptr || !equal(value, *other, budget)) return false;
  }
  return true;
}

std::optional<size_t> place_of(const Dict& dict, const Value& key, Budget& budget) {
  if (!dict.places.empty()) {
    const auto place = dict.places.find(hash_key(key, budget));
    return place == dict.places.end() ? std::nullopt : std::optional(place->second);
  }
  for (size_t i = 0; i < dict.items.size(); ++i)
    if (equal(dict.items[i].first, key, budget)) return i;
  return std::nullopt;
}

[[noreturn]] void refuse_order(const Value& a, const Value& b) {
  throw DataError("found a comparison by order of " + type_name(a) + " and " + type_name(b) +
                  ", expected values that have one");
}

// What Python's < or <= gives, whichever `or_equal` says.
bool ordered(const Value& a, const Value& b, bool or_equal, Budget& budget) {
  budget.step();
  if (is_number(a) && is_number(b)) return or_equal ? exact(a) <= exact(b) : exact(a) < exact(b);
  const std::string *text_a = as_text(a), *text_b = as_text(b);
  if (text_a && text_b) {
    budget.scan(std::min(text_a->size(), text_b->size()));
    return or_equal ? *text_a <= *text_b : *text_a < *text_b;
  }
  auto *list_a = a.get<SequencePtr>(), *list_b = b.get<SequencePtr>();
  if (!list_a || !list_b || !are_comparable(**list_a, **list_b) ||
      (*list_a)->kind == SequenceKind::range)
    refuse_order(a, b);
  const auto &elements_a = (*list_a)->elements, &elements_b = (*list_b)->elements;
  for (size_t i = 0; i < std::min(elements_a.size(), elements_b.size()); ++i)
    if (!equal(elements_a[i], elements_b[i], budget))
      return ordered(elements_a[i], elements_b[i], or_equal, budget);
  return or_equal ? elements_a.size() <= elements_b.size() : elements_a.size() < elements_b.size();
}

}  // namespace

Value make_text(std::string text, Budget& budget) {
  budget.memory(text.size() + kBytesOfObject);
  return Text{std::make_shared<const std::string>(std::move(text))};
}

Value make_sequence(SequenceKind kind, std::vector<Value> elements, Budget& budget) {
  budget.step(elements.size() / 8);
  budget.memory(elements.size() * sizeof(Value) + kBytesOfObject);
  size_t depth = 0;
  for (const Value& element : elements) depth = std::max(depth, depth_of(element));
  return std::make_shared<Sequence>(Sequence{kind, std::move(elements), one_deeper(depth), 0});
}

Value make_list(std::vector<Value> elements, Budget& budget) {
  return make_sequence(SequenceKind::list, std::move(elements), budget);
}

Value make_tuple(std::vector<Value> elements, Budget& budget) {
  return make_sequence(SequenceKind::tuple, std::move(elements), budget);
}

Value make_dict(Dict dict, Budget& budget) {
  budget.memory(kBytesOfObject);
  return std::make_shared<const Dict>(std::move(dict));
}

Value make_undefined(std::string message) {
  return Undefined{std::make_shared<const std::string>(std::move(message))};
}

Value from_json(const ordered_json& json, Budget& budget) {
  const Budget::Level level(budget);
  switch (json.type()) {
    case ordered_json::value_t::boolean:
      return json.get<bool>();
    case ordered_json::value_t::number_integer:
      return json.get<int64_t>();
    case ordered_json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) break;
      return json.get<int64_t>();
    case ordered_json::value_t::number_float:
      return json.get<double>();
    case ordered_json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      if (const std::string fault = utf8_fault(text); !fault.empty()) throw DataError(fault);
      return Text{std::make_shared<const std::string>(text)};
    }
    case ordered_json::value_t::array: {
      std::vector<Value> elements;
      elements.reserve(json.size());
      for (const auto& element : json) elements.push_back(from_json(element, budget));
      return make_list(std::move(elements), budget);
    }
    case ordered_json::value_t::object: {
      Dict dict;
      for (const auto& [key, value] : json.items())
        insert(dict, make_text(key, budget), from_json(value, budget), budget);
      return make_dict(std::move(dict), budget);
    }
    case ordered_json::value_t::binary: {
      // A number that is too large, as longshore/base/json_tree.h has it. Of one with a fraction or
      // an exponent Python makes an infinite one.
      const auto& bytes = json.get_binary();
      const std::string number(bytes.begin(), bytes.end());
      if (number.find_first_of(".eE") == std::string::npos) break;
      return std::strtod(number.c_str(), nullptr);
    }
    default:
      return None{};
  }
  const std::string found = json.is_binary()
                                ? std::string(json.get_binary().begin(), json.get_binary().end())
                                : json.dump();
  throw DataError("found the integer " + excerpt(found) +
                  " in a variable, expected one of 64 bits");
}

void insert(Dict& dict, Value key, Value value, Budget& budget) {
  const std::string hash = hash_key(key, budget);  // of a value that can be one
  dict.depth = std::max(dict.depth, one_deeper(std::max(depth_of(key), depth_of(value))));
  if (const auto place = place_of(dict, key, budget)) {
    dict.items[*place].second = std::move(value);
    return;
  }
  budget.memory(2 * sizeof(Value));
  dict.items.emplace_back(std::move(key), std::move(value));
  if (dict.items.size() <= kFewItems) return;
  for (size_t i = dict.places.size(); i < dict.items.size(); ++i) {
    std::string name = hash_key(dict.items[i].first, budget);
    budget.memory(name.size() + 2 * kBytesOfObject);
    dict.places.emplace(std::move(name), i);
  }
}

const Value* find(const Dict& dict, const Value& key, Budget& budget) {
  const auto place = place_of(dict, key, budget);
  return place ? &dict.items[*place].second : nullptr;
}

const Value* find(const Dict& dict, std::string_view key, Budget& budget) {
  if (dict.places.empty()) {
    budget.step(dict.items.size());
    for (const auto& [own, value] : dict.items)
      if (const std::string* text = as_text(own); text && *text == key) return &value;
    return nullptr;
  }
  budget.step();
  const auto place = dict.places.find("s" + std::string(key));
  return place == dict.places.end() ? nullptr : &dict.items[place->second].second;
}

std::string type_name(const Value& value) {
  struct Name {
    std::string operator()(const Undefined&) { return "Undefined"; }
    std::string operator()(None) { return "NoneType"; }
    std::string operator()(bool) { return "bool"; }
    std::string operator()(int64_t) { return "int"; }
    std::string operator()(double) { return "float"; }
    std::string operator()(const Text& text) { return text.is_safe ? "Markup" : "str"; }
    std::string operator()(const SequencePtr& sequence) {
      switch (sequence->kind) {
        case SequenceKind::list:
          return "list";
        case SequenceKind::tuple:
        case SequenceKind::group:
          return "tuple";
        case SequenceKind::range:
          return "range";
        case SequenceKind::keys:
          return "dict_keys";
        case SequenceKind::values:
          return "dict_values";
        case SequenceKind::items:
          return "dict_items";
        case SequenceKind::iterator:
          break;
      }
      return "generator";
    }
    std::string operator()(const DictPtr&) { return "dict"; }
    std::string operator()(Namespace*) { return "Namespace"; }
    std::string operator()(const FunctionPtr&) { return "function"; }
    std::string operator()(const std::weak_ptr<Loop>&) { return "LoopContext"; }
  };
  return std::visit(Name{}, static_cast<const Held&>(value));
}

bool is_true(const Value& value) {
  if (value.is<Undefined>() || value.is<None>()) return false;
  if (is_number(value)) return as_double(value) != 0;
  if (const std::string* text = as_text(value)) return !text->empty();
  if (auto* dict = value.get<DictPtr>()) return !(*dict)->items.empty();
  if (auto* sequence = value.get<SequencePtr>())
    return (*sequence)->kind == SequenceKind::iterator || !(*sequence)->elements.empty();
  return true;
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  if (is_number(a) && is_number(b)) return exact(a) == exact(b);
  if (a.index() != b.index()) return false;
  if (a.is<Undefined>() || a.is<None>()) return true;
  if (const std::string* text = as_text(a)) {
    const std::string& other = *as_text(b);
    if (text->size() != other.size()) return false;
    budget.scan(text->size());
    return *text == other;
  }
  if (auto* sequence = a.get<SequencePtr>()) {
    const SequencePtr& other = *b.get<SequencePtr>();
    return *sequence == other ||
           (are_comparable(**sequence, *other) && equal_elements(**sequence, *other, budget));
  }
  if (auto* dict = a.get<DictPtr>()) {
    const DictPtr& other = *b.get<DictPtr>();
    return *dict == other || equal_items(**dict, *other, budget);
  }
  if (auto* space = a.get<Namespace*>()) return *space == *b.get<Namespace*>();
  if (auto* function = a.get<FunctionPtr>()) return *function == *b.get<FunctionPtr>();
  return a.get<std::weak_ptr<Loop>>()->lock() == b.get<std::weak_ptr<Loop>>()->lock();
}

bool less(const Value& a, const Value& b, Budget& budget) { return ordered(a, b, false, budget); }

bool less_or_equal(const Value& a, const Value& b, Budget& budget) {
  return ordered(a, b, true, budget);
}

bool contains(const Value& container, const Value& element, Budget& budget) {
  if (const std::string* text = as_text(container)) {
    const std::string* part = as_text(element);
    if (part == nullptr)
      throw DataError("found " + type_name(element) + " on the left of `in` with a str on its " +
                      "right, expected a str");
    return find_text(*text, *part, 0, budget) != std::string::npos;
  }
  if (auto* dict = container.get<DictPtr>()) {
    hash_key(element, budget);
    return find(**dict, element, budget) != nullptr;
  }
  if (auto* keys = container.get<SequencePtr>(); keys && (*keys)->kind == SequenceKind::keys)
    hash_key(element, budget);
  const Elements elements(container, budget);
  return std::ranges::any_of(elements,
                             [&](const Value& own) { return equal(own, element, budget); });
}

std::string hash_key(const Value& value, Budget& budget) {
  budget.step();
  if (const std::string* text = as_text(value)) {
    budget.scan(text->size());
    return "s" + *text;
  }
  if (is_number(value)) {
    const double number = as_double(value);
    // An integer, and a float of the same value.
    if (!value.is<double>() || (std::trunc(number) == number && std::abs(number) < 0x1p63))
      return "n" + std::to_string(static_cast<int64_t>(exact(value)));
    return "f" + std::to_string(std::hash<double>{}(number));
  }
  if (value.is<None>()) return "none";
  if (value.is<Undefined>()) return "undefined";
  if (auto* sequence = value.get<SequencePtr>(); sequence && (*sequence)->is_tuple()) {
    std::string key = "(";
    for (const Value& element : (*sequence)->elements) {
      const std::string part = hash_key(element, budget);
      key += std::to_string(part.size()) + ":" + part;
    }
    budget.memory(key.size());
    return key;
  }
  throw DataError("found " + type_name(value) + " as a key, expected a value that can be hashed");
}

bool is_hashable(const Value& value, Budget& budget) {
  budget.step();
  auto* sequence = value.get<SequencePtr>();
  if (sequence && (*sequence)->is_tuple())
    return std::ranges::all_of((*sequence)->elements,
                               [&](const Value& element) { return is_hashable(element, budget); });
  return !sequence && !value.is<DictPtr>();
}

const std::string* as_text(const Value& value) {
  const Text* text = value.get<Text>();
  return text ? text->bytes.get() : nullptr;
}

void require_defined(const Value& value) {
  if (auto* undefined = value.get<Undefined>()) throw DataError(*undefined->message);
}

bool is_integer(const Value& value) { return value.is<int64_t>() || value.is<bool>(); }

int64_t as_integer(const Value& value, const char* what) {
  if (auto* integer = value.get<int64_t>()) return *integer;
  if (auto* boolean = value.get<bool>()) return *boolean;
  require_defined(value);
  throw DataError(std::string("found ") + type_name(value) + " as " + what +
                  ", expected an integer");
}

int64_t to_integer(const Value& number) {
  if (const double* real = number.get<double>()) {
    if (std::isnan(*real) || std::isinf(*real))
      throw DataError("found " + std::string(std::isnan(*real) ? "nan" : "an infinite float") +
                      ", expected a number that an int can be");
    if (std::abs(*real) >= 0x1p63)
      throw DataError("found an integer beyond 64 bits, expected none");
    return static_cast<int64_t>(*real);
  }
  return as_integer(number, "a number");
}

bool is_number(const Value& value) {
  return value.is<int64_t>() || value.is<double>() || value.is<bool>();
}

double as_double(const Value& number) { return static_cast<double>(exact(number)); }

bool is_iterable(const Value& value) {
  return value.is<Undefined>() || value.is<Text>() || value.is<SequencePtr>() ||
         value.is<DictPtr>();
}

std::optional<size_t> length(const Value& value, Budget& budget) {
  if (value.is<Undefined>()) return 0;
  if (const std::string* text = as_text(value)) return count_characters(*text, budget);
  if (auto* dict = value.get<DictPtr>()) return (*dict)->items.size();
  auto* sequence = value.get<SequencePtr>();
  if (!sequence || (*sequence)->kind == SequenceKind::iterator) return std::nullopt;
  return (*sequence)->elements.size();
}

Elements::Elements(const Value& value, Budget& budget) {
  if (!is_iterable(value))
    throw DataError("found " + type_name(value) + ", expected a value that can be iterated over");
  if (auto* sequence = value.get<SequencePtr>()) {
    owner_ = *sequence;
    view_ = owner_->elements;
    if (owner_->kind == SequenceKind::iterator)
      view_ = view_.subspan(std::exchange(owner_->taken, view_.size()));
    return;
  }
  std::vector<Value> made;
  if (auto* dict = value.get<DictPtr>()) {
    budget.memory((*dict)->items.size() * sizeof(Value));
    budget.step((*dict)->items.size() / 8);
    for (const auto& item : (*dict)->items) made.push_back(item.first);
  } else if (const std::string* text = as_text(value)) {
    for (std::string_view rest = *text; !rest.empty();) {
      const size_t bytes = first_character(rest).bytes;
      budget.step();
      budget.memory(sizeof(Value));
      made.push_back(make_text(std::string(rest.substr(0, bytes)), budget));
      rest.remove_prefix(bytes);
    }
  }
  made_ = std::make_shared<const std::vector<Value>>(std::move(made));
  view_ = *made_;
}

std::vector<Value> Elements::copy(Budget& budget) const {
  budget.step(size() / 8);
  budget.memory(size() * sizeof(Value));
  return {begin(), end()};
}

}  // namespace longshore::data::jinja
