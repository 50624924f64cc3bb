// What a template says: statements and expressions, as the parser gives them and the interpreter
// goes through them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "longshore/data/jinja/operators.h"
#include "longshore/data/jinja/value.h"

namespace longshore::data::jinja {

// ---- Expressions

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Constant {
  Value value;
};
struct Name {
  std::string name;
};
struct ListLiteral {
  std::vector<ExpressionPtr> elements;
  bool is_tuple;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
};
enum class Prefix { plus, minus, logical_not };
struct Unary {
  Prefix prefix;
  ExpressionPtr operand;
};
struct Binary {
  Operator op;
  ExpressionPtr left, right;
};
struct Logical {
  bool is_and;  // or `or`
  ExpressionPtr left, right;
};
struct Concatenation {
  std::vector<ExpressionPtr> parts;
};
struct Comparison {  // a < b <= c
  ExpressionPtr first;
  std::vector<std::pair<Comparator, ExpressionPtr>> others;
};
struct Conditional {
  ExpressionPtr condition, value, otherwise;  // the last may be null
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Subscript {
  ExpressionPtr object, index;
};
struct Slice {
  ExpressionPtr object, begin, end, step;  // which may be null but for the first
};
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr unpacked, unpacked_named;  // *a and **b: may be null
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
struct Filtered {
  ExpressionPtr value;  // null in a filter block: what that encloses
  std::string name;
  CallArguments arguments;
};
struct Tested {
  ExpressionPtr value;
  std::string name;
  CallArguments arguments;
};

struct Expression {
  std::variant<Constant, Name, ListLiteral, DictLiteral, Unary, Binary, Logical, Concatenation,
               Comparison, Conditional, Attribute, Subscript, Slice, Call, Filtered, Tested>
      form;
  size_t line;
};

// ---- Statements

struct Statement;
using Block = std::vector<Statement>;

// What is assigned to: a name, an attribute of a namespace, or several of these.
struct Target {
  std::string name, attribute;  // the latter empty where it is none
  std::vector<Target> parts;
  bool is_tuple = false;
};

struct Output {
  std::string text;  // or
  ExpressionPtr value;
};
struct For {
  Target target;
  ExpressionPtr elements, condition;  // the latter may be null
  bool is_recursive = false;
  Block body, otherwise;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  Block otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr filter;  // may be null
  Block body;
};
struct Macro {
  std::string name;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // with defaults, or null
  Block body;
  // Whether the body mentions these, which it then has from its call.
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false;
};
struct CallBlock {
  Macro caller;
  ExpressionPtr call;
};
struct FilterBlock {
  ExpressionPtr filter;
  Block body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> variables;
  Block body;
};
struct Generation {
  Block body;
};
struct Break {};
struct Continue {};

struct Statement {
  std::variant<Output, For, If, Set, SetBlock, Macro, CallBlock, FilterBlock, With, Generation,
               Break, Continue>
      form;
  size_t line;
};

}  // namespace longshore::data::jinja
