// A Value is what an expression of a template gives: one of Python's objects, as far as templates
// meet them.
//
// Values do not change, but for namespaces, and iterators, which give each element once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "longshore/data/jinja/budget.h"

namespace longshore::data::jinja {

struct Value;
struct Sequence;
struct Dict;
struct Namespace;
struct Function;
class Loop;

// What a name, an attribute or an element is that is not there. The text says which.
struct Undefined {
  std::shared_ptr<const std::string> message;
};

struct None {};

// A str. It is valid UTF-8. Python's positions within it count characters.
struct Text {
  std::shared_ptr<const std::string> bytes;
  bool is_safe = false;  // markupsafe's Markup: what is added to it is escaped for HTML

  const std::string& operator*() const { return *bytes; }
  const std::string* operator->() const { return bytes.get(); }
};

using SequencePtr = std::shared_ptr<Sequence>;
using DictPtr = std::shared_ptr<const Dict>;
using FunctionPtr = std::shared_ptr<const Function>;

// Loops and namespaces, which may hold themselves, belong to the rendering.
using Held = std::variant<Undefined, None, bool, int64_t, double, Text, SequencePtr, DictPtr,
                          Namespace*, FunctionPtr, std::weak_ptr<Loop>>;

struct Value : Held {
  using Held::Held;

  template <class T>
  const T* get() const {
    return std::get_if<T>(this);
  }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(*this);
  }
};

// The first four have positions, which brackets ask for.
enum class SequenceKind { list, tuple, group, range, keys, values, items, iterator };

struct Sequence {
  SequenceKind kind = SequenceKind::list;
  std::vector<Value> elements;
  size_t depth = 1;
  size_t taken = 0;  // of an iterator's elements

  // A group of groupby() is a tuple, whose two elements have names.
  bool is_tuple() const { return kind == SequenceKind::tuple || kind == SequenceKind::group; }
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;  // in the order in which the keys came first
  std::map<std::string, size_t> places;        // by hash_key(), where the items are many
  size_t depth = 1;
};

struct Namespace {
  Dict attributes;
};

// What a call gives: positional and named.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// A macro, a method with the value that it is of, or a function that all templates have.
struct Function {
  std::string name;
  std::function<Value(Arguments&)> call;
};

// Each of these takes the memory of what it makes.
Value make_text(std::string text, Budget& budget);
Value make_sequence(SequenceKind kind, std::vector<Value> elements, Budget& budget);
Value make_list(std::vector<Value> elements, Budget& budget);
Value make_tuple(std::vector<Value> elements, Budget& budget);
Value make_dict(Dict dict, Budget& budget);
Value make_undefined(std::string message);

// Throws a DataError on numbers that have more than 64 bits, and values nested too deep.
Value from_json(const nlohmann::ordered_json& json, Budget& budget);

// Replaces the value of a key that is there. Throws a DataError on a key that Python cannot hash.
void insert(Dict& dict, Value key, Value value, Budget& budget);
// Null where it has no such key.
const Value* find(const Dict& dict, const Value& key, Budget& budget);
const Value* find(const Dict& dict, std::string_view key, Budget& budget);

// As Python's type() names it: "str", "NoneType".
std::string type_name(const Value& value);

bool is_true(const Value& value);
bool equal(const Value& a, const Value& b, Budget& budget);
// Throws a DataError where Python does not order them.
bool less(const Value& a, const Value& b, Budget& budget);
bool less_or_equal(const Value& a, const Value& b, Budget& budget);
// The `in` of Python.
bool contains(const Value& container, const Value& element, Budget& budget);

// The same for two values that are equal. Throws a DataError on what Python cannot hash.
std::string hash_key(const Value& value, Budget& budget);
bool is_hashable(const Value& value, Budget& budget);

// The text of a str; null for others.
const std::string* as_text(const Value& value);
// Throws a DataError with its message for an Undefined.
void require_defined(const Value& value);
// A bool or an int.
bool is_integer(const Value& value);
// Of these; throws a DataError, which says that `what` is to be one, for others.
int64_t as_integer(const Value& value, const char* what);
// Python's int(number): without the fraction.
int64_t to_integer(const Value& number);
// An int, a float or a bool.
bool is_number(const Value& value);
double as_double(const Value& number);

// What a loop goes through: elements, keys of a dict, characters.
class Elements {
 public:
  // Throws a DataError for what Python cannot iterate over. Takes what an iterator has left.
  Elements(const Value& value, Budget& budget);

  auto begin() const { return view_.begin(); }
  auto end() const { return view_.end(); }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  const Value& operator[](size_t i) const { return view_[i]; }
  std::vector<Value> copy(Budget& budget) const;

 private:
  std::span<const Value> view_;
  std::shared_ptr<const std::vector<Value>> made_;  // of which the view is
  SequencePtr owner_;                               // or this
};

bool is_iterable(const Value& value);
// Nothing for what has no len() in Python.
std::optional<size_t> length(const Value& value, Budget& budget);

}  // namespace longshore::data::jinja
