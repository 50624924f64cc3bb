#include "longshore/data/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "longshore/data/jinja/characters.h"
#include "longshore/data/jinja/python_format.h"
#include "longshore/data/jinja/python_text.h"

namespace longshore::data::jinja {
namespace {

const char* symbol(Operator op) {
  constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSymbols[static_cast<size_t>(op)];
}

[[noreturn]] void refuse_size() {
  throw DataError("found an integer beyond 64 bits, expected none");
}

[[noreturn]] void refuse_zero() { throw DataError("found a division by zero, expected none"); }

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (true) {
    if (exponent & 1 && __builtin_mul_overflow(result, base, &result)) refuse_size();
    exponent >>= 1;
    if (exponent == 0) return result;
    if (__builtin_mul_overflow(base, base, &base)) refuse_size();
  }
}

double real_power(double base, double exponent) {
  if (base == 0 && exponent < 0) refuse_zero();
  const double result = std::pow(base, exponent);
  const bool is_finite = std::isfinite(base) && std::isfinite(exponent);
  if (is_finite && !std::isfinite(result))
    throw DataError("found a power that is no float, expected one that is");
  return result;
}

// Towards minus infinity, with a remainder of the divisor's sign.
Value integer_division(Operator op, int64_t a, int64_t b) {
  if (b == 0) refuse_zero();
  if (b == -1) {  // of the least integer the processor makes a fault
    if (op == Operator::modulo) return int64_t{0};
    if (a == std::numeric_limits<int64_t>::min()) refuse_size();
    return -a;
  }
  const bool is_between = a % b != 0 && (a < 0) != (b < 0);
  return op == Operator::modulo ? a % b + (is_between ? b : 0) : a / b - (is_between ? 1 : 0);
}

Value real_division(Operator op, double a, double b) {
  if (b == 0) refuse_zero();
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder == 0) {
    remainder = std::copysign(0.0, b);
  } else if ((remainder < 0) != (b < 0)) {
    remainder += b;
    quotient -= 1;
  }
  if (op == Operator::modulo) return remainder;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Value of_integers(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Operator::add:
      if (__builtin_add_overflow(a, b, &result)) refuse_size();
      return result;
    case Operator::subtract:
      if (__builtin_sub_overflow(a, b, &result)) refuse_size();
      return result;
    case Operator::multiply:
      if (__builtin_mul_overflow(a, b, &result)) refuse_size();
      return result;
    case Operator::divide:
      if (b == 0) refuse_zero();
      return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
    case Operator::power:
      if (b < 0) return real_power(static_cast<double>(a), static_cast<double>(b));
      return integer_power(a, b);
    default:
      return integer_division(op, a, b);
  }
}

Value of_reals(Operator op, double a, double b) {
  switch (op) {
    case Operator::add:
      return a + b;
    case Operator::subtract:
      return a - b;
    case Operator::multiply:
      return a * b;
    case Operator::divide:
      if (b == 0) refuse_zero();
      return a / b;
    case Operator::power:
      return real_power(a, b);
    default:
      return real_division(op, a, b);
  }
}

Value joined(const Value& a, const Value& b, Budget& budget) {
  const Text &left = *a.get<Text>(), &right = *b.get<Text>();
  budget.memory(left->size() + right->size());
  if (!left.is_safe && !right.is_safe) return make_text(*left + *right, budget);
  auto escaped = [&](const Text& text) {
    return text.is_safe ? *text : escaped_for_html(*text, budget);
  };
  return text_like(left.is_safe ? a : b, escaped(left) + escaped(right), budget);
}

Value repeated(const Value& value, int64_t count, Budget& budget) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  auto take = [&](size_t bytes) {
    if (bytes > 0 && times > Budget::kMostMemory / bytes)
      Budget::refuse(Budget::kMostMemory, "bytes in the values that it makes");
    budget.memory(times * bytes);
  };
  if (const std::string* text = as_text(value)) {
    take(text->size());
    std::string result;
    result.reserve(times * text->size());
    for (size_t i = 0; i < times && !text->empty(); ++i) result += *text;
    return text_like(value, std::move(result), budget);
  }
  const Sequence& sequence = **value.get<SequencePtr>();
  take(sequence.elements.size() * sizeof(Value));
  std::vector<Value> elements;
  elements.reserve(times * sequence.elements.size());
  for (size_t i = 0; i < times && !sequence.elements.empty(); ++i)
    elements.insert(elements.end(), sequence.elements.begin(), sequence.elements.end());
  return make_sequence(sequence.kind, std::move(elements), budget);
}

bool is_repeatable(const Value& value) {
  auto* sequence = value.get<SequencePtr>();
  return value.is<Text>() ||
         (sequence && ((*sequence)->kind == SequenceKind::list || (*sequence)->is_tuple()));
}

}  // namespace

Value binary(Operator op, const Value& a, const Value& b, Budget& budget) {
  const auto *sequence_a = a.get<SequencePtr>(), *sequence_b = b.get<SequencePtr>();
  if (op == Operator::modulo && a.is<Text>()) {
    if (a.get<Text>()->is_safe)
      throw DataError("found % with a safe text on its left, expected a plain one");
    return make_text(percent_format(*as_text(a), b, budget), budget);
  }
  require_defined(a);
  require_defined(b);
  if (is_integer(a) && is_integer(b))
    return of_integers(op, as_integer(a, "a number"), as_integer(b, "a number"));
  if (is_number(a) && is_number(b)) return of_reals(op, as_double(a), as_double(b));
  if (op == Operator::add && a.is<Text>() && b.is<Text>()) return joined(a, b, budget);
  if (op == Operator::add && sequence_a && sequence_b && is_repeatable(a) && is_repeatable(b) &&
      (*sequence_a)->is_tuple() == (*sequence_b)->is_tuple()) {
    std::vector<Value> elements = Elements(a, budget).copy(budget);
    const Elements more(b, budget);
    elements.insert(elements.end(), more.begin(), more.end());
    return make_sequence((*sequence_a)->is_tuple() ? SequenceKind::tuple : SequenceKind::list,
                         std::move(elements), budget);
  }
  if (op == Operator::multiply && is_repeatable(a) && is_integer(b))
    return repeated(a, as_integer(b, "a number"), budget);
  if (op == Operator::multiply && is_integer(a) && is_repeatable(b))
    return repeated(b, as_integer(a, "a number"), budget);
  throw DataError("found " + type_name(a) + " " + symbol(op) + " " + type_name(b) +
                  ", expected values that have this operator");
}

Value negated(const Value& value) {
  if (is_integer(value)) return of_integers(Operator::subtract, 0, as_integer(value, "a number"));
  return positive(value).get<double>() ? Value(-*value.get<double>()) : value;
}

Value positive(const Value& value) {
  require_defined(value);
  if (is_integer(value)) return as_integer(value, "a number");
  if (value.is<double>()) return value;
  throw DataError("found " + type_name(value) + " behind a sign, expected a number");
}

bool compared(Comparator comparator, const Value& a, const Value& b, Budget& budget) {
  switch (comparator) {
    case Comparator::equal:
      return equal(a, b, budget);
    case Comparator::unequal:
      return !equal(a, b, budget);
    case Comparator::less:
      return less(a, b, budget);
    case Comparator::less_equal:
      return less_or_equal(a, b, budget);
    case Comparator::greater:
      return less(b, a, budget);
    case Comparator::greater_equal:
      return less_or_equal(b, a, budget);
    case Comparator::in:
      return contains(b, a, budget);
    case Comparator::not_in:
      break;
  }
  return !contains(b, a, budget);
}

Value text_like(const Value& other, std::string text, Budget& budget) {
  Value made = make_text(std::move(text), budget);
  if (other.get<Text>() && other.get<Text>()->is_safe) std::get<Text>(made).is_safe = true;
  return made;
}

}  // namespace longshore::data::jinja
